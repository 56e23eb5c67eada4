// A producer with the client's own settings that sends one message after the other until its standard
// input ends, and prints the body of each that was acknowledged, and of each that was not.
//
//	go run . NAMESRV TOPIC GROUP PREFIX flood
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Between two sends: whoever looks at what was acknowledged has a number of messages to compare.
const floodPause = 5 * time.Millisecond

func flood(namesrv, topic, group, prefix string) error {
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
	for i := 0; !isOver.Load(); i++ {
		body := fmt.Sprintf("%s-%d", prefix, i)
		sent, err := p.SendSync(context.Background(), primitive.NewMessage(topic, []byte(body)))
		// A broker that is gone acknowledges nothing; whoever floods goes on.
		switch {
		case err != nil:
			fmt.Println("failed", body, err)
		case sent.Status != primitive.SendOK:
			fmt.Println("failed", body, sent.Status)
		default:
			fmt.Println("sent", body)
		}
		time.Sleep(floodPause)
	}
	return p.Shutdown()
}
