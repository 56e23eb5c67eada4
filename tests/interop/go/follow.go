// A push consumer that runs until its standard input ends, and prints the key of each message.
//
//	go run . NAMESRV TOPIC GROUP PAUSE_MS
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func follow(namesrv, topic, group, pause string) error {
	pauseMs, err := strconv.Atoi(pause)
	if err != nil {
		return err
	}
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{namesrv}),
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	var printing sync.Mutex
	handle := func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		printing.Lock()
		for _, message := range batch {
			fmt.Println(message.GetKeys())
		}
		printing.Unlock()
		time.Sleep(time.Duration(pauseMs) * time.Millisecond)
		return consumer.ConsumeSuccess, nil
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	if err := c.Subscribe(topic, selector, handle); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return c.Shutdown()
}
