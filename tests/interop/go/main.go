// The official Go client against a name server and its broker: sends, pushes, orders, retries and
// broadcasts, and prints one line of JSON per case. Ends with status 1 when a case fails.
//
//	go run . NAMESRV TOPIC
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	count = 20
	// Far beyond what a busy machine needs.
	patience = 90 * time.Second
	// A retry comes after one second.
	soonestLevel = 1
	// With a group and a pause a consumer is followed: follow.go.
	followArgs = 5
	// With one more word it sends until it is ended: flood.go.
	floodArgs = 6
)

// got is what one consumer was given, safe for the client's goroutines.
type got struct {
	mutex  sync.Mutex
	times  map[string]int
	enough chan struct{}
	want   int
	order  map[int][]int64
	isDone bool
}

func newGot(want int) *got {
	return &got{times: map[string]int{}, enough: make(chan struct{}), want: want, order: map[int][]int64{}}
}

// add notes a delivery and returns how often this message came until now.
func (g *got) add(message *primitive.MessageExt) int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	body := string(message.Body)
	g.times[body]++
	g.order[message.Queue.QueueId] = append(g.order[message.Queue.QueueId], message.QueueOffset)
	total := 0
	for _, n := range g.times {
		total += n
	}
	if total >= g.want && !g.isDone {
		g.isDone = true
		close(g.enough)
	}
	return g.times[body]
}

// wait returns how often each body came, once there is enough.
func (g *got) wait() (map[string]int, error) {
	select {
	case <-g.enough:
	case <-time.After(patience):
		return nil, fmt.Errorf("only %v came", g.times)
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	times := map[string]int{}
	for body, n := range g.times {
		times[body] = n
	}
	return times, nil
}

func expect(times map[string]int, prefix string, each int) error {
	for i := 0; i < count; i++ {
		body := fmt.Sprintf("%s-%d", prefix, i)
		if times[body] != each {
			return fmt.Errorf("%s came %d times, not %d", body, times[body], each)
		}
	}
	if len(times) != count {
		return fmt.Errorf("%d messages came, not %d", len(times), count)
	}
	return nil
}

// credentials are what requests are signed with; empty without the variables.
func credentials() primitive.Credentials {
	return primitive.Credentials{
		AccessKey: os.Getenv("INTEROP_ACCESS_KEY"),
		SecretKey: os.Getenv("INTEROP_SECRET_KEY"),
	}
}

func started(namesrv, group string, selector producer.QueueSelector) (rocketmq.Producer, error) {
	options := []producer.Option{
		producer.WithNameServer([]string{namesrv}),
		producer.WithGroupName(group),
		producer.WithInstanceName(group),
		producer.WithSendMsgTimeout(20 * time.Second),
		producer.WithCredentials(credentials()),
	}
	if selector != nil {
		options = append(options, producer.WithQueueSelector(selector))
	}
	p, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	return p, p.Start()
}

func messages(topic, prefix string) []*primitive.Message {
	var all []*primitive.Message
	for i := 0; i < count; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("%s-%d", prefix, i)))
		message.WithTag(prefix).WithKeys([]string{fmt.Sprintf("%s-%d", prefix, i)})
		all = append(all, message.WithShardingKey(fmt.Sprint(i%4)))
	}
	return all
}

// sendSync sends one by one and demands that each is acknowledged.
func sendSync(p rocketmq.Producer, topic, prefix string) error {
	for _, message := range messages(topic, prefix) {
		result, err := p.SendSync(context.Background(), message)
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("%v", result)
		}
	}
	return nil
}

func push(namesrv, group, instance, topic, tag string, g *got, failures int, options ...consumer.Option,
) (rocketmq.PushConsumer, error) {
	options = append(options,
		consumer.WithNameServer([]string{namesrv}),
		consumer.WithGroupName(group),
		consumer.WithInstance(instance),
		consumer.WithCredentials(credentials()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	c, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	handle := func(ctx context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, message := range batch {
			if g.add(message) <= failures {
				if concurrent, ok := primitive.GetConcurrentlyCtx(ctx); ok {
					concurrent.DelayLevelWhenNextConsume = soonestLevel
				}
				result = consumer.ConsumeRetryLater
			}
		}
		return result, nil
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tag}
	if err := c.Subscribe(topic, selector, handle); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// consumed starts a consumer, lets send send and demands each message so many times.
func consumed(namesrv, topic, prefix string, failures int, send func() error, options ...consumer.Option,
) (*got, error) {
	g := newGot(count * (failures + 1))
	c, err := push(namesrv, "CG_go_"+prefix, "go-"+prefix, topic, prefix, g, failures, options...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Shutdown() }()
	if err := send(); err != nil {
		return nil, err
	}
	times, err := g.wait()
	if err != nil {
		return nil, err
	}
	return g, expect(times, prefix, failures+1)
}

func cases(namesrv, topic string) (map[string]func() error, func(), error) {
	p, err := started(namesrv, "PG_go", nil)
	if err != nil {
		return nil, nil, err
	}
	sharding, err := started(namesrv, "PG_go_hash", producer.NewHashQueueSelector())
	if err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = p.Shutdown()
		_ = sharding.Shutdown()
	}
	async := func() error {
		var left sync.WaitGroup
		var mutex sync.Mutex
		var failed error
		for _, message := range messages(topic, "async") {
			left.Add(1)
			note := func(_ context.Context, result *primitive.SendResult, err error) {
				defer left.Done()
				if err == nil && result.Status == primitive.SendOK {
					return
				}
				mutex.Lock()
				failed = fmt.Errorf("%v %v", result, err)
				mutex.Unlock()
			}
			if err := p.SendAsync(context.Background(), note, message); err != nil {
				return err
			}
		}
		left.Wait()
		return failed
	}
	oneway := func() error {
		for _, message := range messages(topic, "oneway") {
			if err := p.SendOneWay(context.Background(), message); err != nil {
				return err
			}
		}
		return nil
	}
	batch := func() error {
		_, err := p.SendSync(context.Background(), messages(topic, "batch")...)
		return err
	}
	plain := func(prefix string, send func() error, options ...consumer.Option) func() error {
		return func() error {
			_, err := consumed(namesrv, topic, prefix, 0, send, options...)
			return err
		}
	}
	sync := func(prefix string) func() error {
		return func() error { return sendSync(p, topic, prefix) }
	}
	return map[string]func() error{
		"sync":      plain("sync", sync("sync")),
		"async":     plain("async", async),
		"oneway":    plain("oneway", oneway),
		"batch":     plain("batch", batch),
		"broadcast": plain("broadcast", sync("broadcast"), consumer.WithConsumerModel(consumer.BroadCasting)),
		"retry": func() error {
			_, err := consumed(namesrv, topic, "retry", 1, sync("retry"))
			return err
		},
		"orderly": func() error {
			send := func() error { return sendSync(sharding, topic, "orderly") }
			g, err := consumed(namesrv, topic, "orderly", 0, send, consumer.WithConsumerOrder(true))
			if err != nil {
				return err
			}
			for queue, offsets := range g.order {
				if !sort.SliceIsSorted(offsets, func(a, b int) bool { return offsets[a] < offsets[b] }) {
					return fmt.Errorf("queue %d: %v", queue, offsets)
				}
			}
			return nil
		},
	}, end, nil
}

func main() {
	rlog.SetLogLevel("error")
	if len(os.Args) == followArgs || len(os.Args) == floodArgs {
		run := follow
		if len(os.Args) == floodArgs {
			run = flood
		}
		if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	all, end, err := cases(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	// At once: each has a group and a tag of its own, and most of its time is waiting.
	failures := make([]error, len(names))
	var left sync.WaitGroup
	for at, name := range names {
		left.Add(1)
		go func(at int, run func() error) {
			defer left.Done()
			failures[at] = run()
		}(at, all[name])
	}
	left.Wait()
	status := 0
	for at, name := range names {
		failure := ""
		if failures[at] != nil {
			failure = failures[at].Error()
			status = 1
		}
		line, _ := json.Marshal(map[string]string{"case": name, "failure": failure})
		fmt.Println(string(line))
	}
	end()
	os.Exit(status)
}
