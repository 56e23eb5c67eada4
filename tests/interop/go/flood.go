// A producer that sends until its standard input ends, and prints the body of each message that was
// acknowledged.
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

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Between two sends: whoever looks at what was acknowledged has a number of messages to compare.
const floodPause = 5 * time.Millisecond

func flood(namesrv, topic, group, prefix string) error {
	p, err := started(namesrv, group, nil)
	if err != nil {
		return err
	}
	var isOver atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		isOver.Store(true)
	}()
	for i := 0; !isOver.Load(); i++ {
		body := fmt.Sprintf("%s-%d", prefix, i)
		result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, []byte(body)))
		// A broker that is gone acknowledges nothing; whoever floods goes on.
		if err == nil && result.Status == primitive.SendOK {
			fmt.Println(body)
		}
		time.Sleep(floodPause)
	}
	return p.Shutdown()
}
