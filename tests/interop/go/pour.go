// A producer with the client's own settings that sends one message after the other until its standard
// input ends, and prints what was acknowledged and what failed.
//
//	go run . NAMESRV TOPIC GROUP PAUSE_MS pour
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func pour(namesrv, topic, group, pause string) error {
	pauseMs, err := strconv.Atoi(pause)
	if err != nil {
		return err
	}
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{namesrv}),
		producer.WithGroupName(group),
		producer.WithInstanceName(group))
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	var isOver atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		isOver.Store(true)
	}()
	for number := 0; !isOver.Load(); number++ {
		body := fmt.Sprintf("go-%d", number)
		sent, err := p.SendSync(context.Background(), primitive.NewMessage(topic, []byte(body)))
		switch {
		case err != nil:
			fmt.Println("failed", body, err)
		case sent.Status != primitive.SendOK:
			fmt.Println("failed", body, sent.Status)
		default:
			fmt.Println("sent", body)
		}
		time.Sleep(time.Duration(pauseMs) * time.Millisecond)
	}
	return p.Shutdown()
}
