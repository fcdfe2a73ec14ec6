// go-amqp, Azure's AMQP 1.0 client in Go: scenarios PORT NAME...; each prints "ok NAME" or why not.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

const (
	limit = 15 * time.Second
	quiet = 400 * time.Millisecond
)

// client is one connection with one session; every failure ends the scenario by a panic.
type client struct {
	conn    *amqp.Conn
	session *amqp.Session
}

func within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	time.AfterFunc(limit, cancel)
	return ctx
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(expected, seen any) {
	if fmt.Sprint(expected) != fmt.Sprint(seen) {
		panic(fmt.Sprintf("expected %v, saw %v", expected, seen))
	}
}

func connect(uri string, options *amqp.ConnOptions) *client {
	conn, err := amqp.Dial(within(), uri, options)
	must(err)
	session, err := conn.NewSession(within(), nil)
	must(err)
	return &client{conn, session}
}

func (c *client) sender(address string) *amqp.Sender {
	sender, err := c.session.NewSender(within(), address, nil)
	must(err)
	return sender
}

func (c *client) send(address string, bodies ...string) {
	sender := c.sender(address)
	for _, body := range bodies {
		message := text(body)
		message.ApplicationProperties = map[string]any{"to": address}
		must(sender.Send(within(), message, nil))
	}
	must(sender.Close(within()))
}

func (c *client) receiver(address string, options *amqp.ReceiverOptions) *amqp.Receiver {
	receiver, err := c.session.NewReceiver(within(), address, options)
	must(err)
	return receiver
}

// Dead letters of what was sent to the address: others share the gateway and have theirs.
func (c *client) deadLetters(address string) *amqp.Receiver {
	filter := amqp.NewSelectorFilter(fmt.Sprintf("to = '%s'", address))
	return c.receiver("ActiveMQ.DLQ", &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{filter}})
}

func text(body string) *amqp.Message {
	return &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: body}
}

func receive(receiver *amqp.Receiver) *amqp.Message {
	message, err := receiver.Receive(within(), nil)
	must(err)
	return message
}

func accept(receiver *amqp.Receiver, bodies ...string) {
	for _, body := range bodies {
		message := receive(receiver)
		expect(body, message.Value)
		must(receiver.AcceptMessage(within(), message))
	}
}

func nothing(receiver *amqp.Receiver) {
	ctx, cancel := context.WithTimeout(context.Background(), quiet)
	defer cancel()
	message, err := receiver.Receive(ctx, nil)
	if err == nil {
		panic(fmt.Sprintf("a message too many: %v", message.Value))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		panic(err)
	}
}

func numbered(count int) []string {
	bodies := make([]string, count)
	for number := range bodies {
		bodies[number] = fmt.Sprintf("m%d", number)
	}
	return bodies
}

type scenario func(c *client, uri, name string)

var scenarios = map[string]scenario{
	"queue_in_order": func(c *client, _, name string) {
		c.send(name, numbered(50)...)
		receiver := c.receiver(name, &amqp.ReceiverOptions{Credit: 20})
		accept(receiver, numbered(50)...)
		nothing(receiver)
	},
	"topic_to_all": func(c *client, uri, name string) {
		address := "topic://" + name
		other := connect(uri, nil)
		defer other.conn.Close()
		receivers := []*amqp.Receiver{c.receiver(address, nil), other.receiver(address, nil)}
		c.send(address, "a", "b")
		for _, receiver := range receivers {
			accept(receiver, "a", "b")
		}
	},
	"properties_survive": func(c *client, _, name string) {
		subject, reply, group := "order", "answers", "g"
		sent := text("x")
		sent.Properties = &amqp.MessageProperties{
			MessageID: "id-1", CorrelationID: uint64(7), Subject: &subject, ReplyTo: &reply, GroupID: &group,
		}
		sent.ApplicationProperties = map[string]any{"colour": "red", "size": int32(5), "yes": true, "long": int64(1) << 40}
		sent.Annotations = amqp.Annotations{"x-opt-mine": "kept"}
		must(c.sender(name).Send(within(), sent, nil))
		got := receive(c.receiver(name, nil))
		expect(sent.ApplicationProperties, got.ApplicationProperties)
		expect(sent.Properties.MessageID, got.Properties.MessageID)
		expect(sent.Properties.CorrelationID, got.Properties.CorrelationID)
		expect(subject, *got.Properties.Subject)
		expect("kept", got.Annotations["x-opt-mine"])
		expect(true, got.Header.Durable)
	},
	"selectors": func(c *client, _, name string) {
		sender := c.sender(name)
		for number := 0; number < 6; number++ {
			message := text(fmt.Sprintf("m%d", number))
			message.ApplicationProperties = map[string]any{"n": int32(number)}
			must(sender.Send(within(), message, nil))
		}
		receiver := c.receiver(name, &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("n > 3")}})
		accept(receiver, "m4", "m5")
		nothing(receiver)
	},
	"a_broken_selector_is_refused": func(c *client, _, name string) {
		options := &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("n ==== 1")}}
		_, err := c.session.NewReceiver(within(), name, options)
		var refused *amqp.Error
		if !errors.As(err, &refused) {
			panic(fmt.Sprintf("no refusal with an error: %v", err))
		}
		expect("amqp:invalid-field", refused.Condition)
	},
	"outcomes": func(c *client, _, name string) {
		c.send(name, "released", "modified", "rejected")
		receiver := c.receiver(name, &amqp.ReceiverOptions{Credit: 1})
		message := receive(receiver)
		must(receiver.ReleaseMessage(within(), message))
		message = receive(receiver)
		expect([]any{"released", 0, false}, []any{message.Value, message.Header.DeliveryCount, message.Header.FirstAcquirer})
		must(receiver.AcceptMessage(within(), message))
		message = receive(receiver)
		must(receiver.ModifyMessage(within(), message, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
		message = receive(receiver)
		must(receiver.RejectMessage(within(), message, &amqp.Error{Condition: "app:bad", Description: "not wanted"}))
		message = receive(receiver)
		expect([]any{"modified", 1}, []any{message.Value, message.Header.DeliveryCount})
		must(receiver.AcceptMessage(within(), message))
		nothing(receiver)
		accept(c.deadLetters(name), "rejected")
	},
	"redelivery_to_dead_letter": func(c *client, _, name string) {
		c.send(name, "poison")
		receiver := c.receiver(name, nil)
		for count := 0; count < 7; count++ {
			message := receive(receiver)
			expect(count, message.Header.DeliveryCount)
			must(receiver.ModifyMessage(within(), message, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
		}
		accept(c.deadLetters(name), "poison")
	},
	"durable_subscription": func(c *client, uri, name string) {
		address := "topic://" + name
		options := &amqp.ReceiverOptions{
			Name: "sub", SourceDurability: amqp.DurabilityUnsettledState, SourceExpiryPolicy: amqp.ExpiryPolicyNever,
		}
		first := connect(uri, &amqp.ConnOptions{ContainerID: "go-durable"})
		first.receiver(address, options)
		must(first.conn.Close())
		c.send(address, "kept one", "kept two")
		again := connect(uri, &amqp.ConnOptions{ContainerID: "go-durable"})
		defer again.conn.Close()
		resumed := again.receiver(address, options)
		accept(resumed, "kept one", "kept two")
		must(resumed.Close(within()))
		c.send(address, "never seen")
		nothing(again.receiver(address, options))
	},
	"shared_subscription": func(c *client, uri, name string) {
		address := "topic://" + name
		options := func(link string) *amqp.ReceiverOptions {
			capabilities := []string{"topic", "shared", "global"}
			return &amqp.ReceiverOptions{Name: link, SourceCapabilities: capabilities, Credit: 2}
		}
		other := connect(uri, nil)
		defer other.conn.Close()
		one, two := c.receiver(address, options("shared|1")), other.receiver(address, options("shared|2"))
		c.send(address, "a", "b", "c", "d")
		seen := map[any]int{}
		for _, receiver := range []*amqp.Receiver{one, two} {
			for count := 0; count < 2; count++ {
				seen[receive(receiver).Value]++
			}
		}
		expect(map[any]int{"a": 1, "b": 1, "c": 1, "d": 1}, seen)
	},
	"request_reply": func(c *client, uri, name string) {
		server := connect(uri, nil)
		defer server.conn.Close()
		requests := server.receiver(name, nil)
		replies := c.receiver("", &amqp.ReceiverOptions{DynamicAddress: true})
		sender := c.sender(name)
		for number := 0; number < 3; number++ {
			address := replies.Address()
			request := text(fmt.Sprintf("r%d", number))
			request.Properties = &amqp.MessageProperties{ReplyTo: &address, CorrelationID: fmt.Sprintf("c%d", number)}
			must(sender.Send(within(), request, nil))
			asked := receive(requests)
			must(requests.AcceptMessage(within(), asked))
			answer := text("answer to " + asked.Value.(string))
			answer.Properties = &amqp.MessageProperties{CorrelationID: asked.Properties.CorrelationID}
			must(server.sender(*asked.Properties.ReplyTo).Send(within(), answer, nil))
			got := receive(replies)
			expect(fmt.Sprintf("answer to r%d", number), got.Value)
			expect(fmt.Sprintf("c%d", number), got.Properties.CorrelationID)
			must(replies.AcceptMessage(within(), got))
		}
	},
	"browser": func(c *client, _, name string) {
		c.send(name, "a", "b")
		browser := c.receiver(name+"?consumer.browser=true", &amqp.ReceiverOptions{Credit: 10})
		expect("a", receive(browser).Value)
		expect("b", receive(browser).Value)
		accept(c.receiver(name, nil), "a", "b")
	},
	"credit_of_one_and_drain": func(c *client, _, name string) {
		c.send(name, "a", "b")
		receiver := c.receiver(name, &amqp.ReceiverOptions{Credit: -1})
		nothing(receiver)
		must(receiver.IssueCredit(1))
		accept(receiver, "a")
		nothing(receiver)
		must(receiver.IssueCredit(5))
		accept(receiver, "b")
		must(receiver.DrainCredit(within(), nil))
		c.send(name, "c")
		nothing(receiver)
		must(receiver.IssueCredit(1))
		accept(receiver, "c")
	},
	"prefetch_thousand": func(c *client, _, name string) {
		c.send(name, numbered(6)...)
		first := c.receiver(name, &amqp.ReceiverOptions{Credit: 1000})
		accept(first, "m0")
		nothing(c.receiver(name, nil))
		accept(first, numbered(6)[1:]...)
	},
	"settle_modes": func(c *client, _, name string) {
		settled, second := amqp.SenderSettleModeSettled, amqp.ReceiverSettleModeSecond
		sender, err := c.session.NewSender(within(), name, &amqp.SenderOptions{SettlementMode: &settled})
		must(err)
		must(sender.Send(within(), text("pre-settled"), nil))
		unsettled, err := c.session.NewSender(within(), name, &amqp.SenderOptions{RequestedReceiverSettleMode: &second})
		must(err)
		must(unsettled.Send(within(), text("settled second"), nil))
		receiver := c.receiver(name, &amqp.ReceiverOptions{SettlementMode: &second})
		accept(receiver, "pre-settled", "settled second")
		nothing(receiver)
	},
	"large_messages": func(c *client, _, name string) {
		body := make([]byte, 1_000_000)
		for index := range body {
			body[index] = byte(index)
		}
		must(c.sender(name).Send(within(), amqp.NewMessage(body), nil))
		expect(string(body), string(receive(c.receiver(name, nil)).GetData()))
	},
	"without_sasl_and_anonymous": func(c *client, uri, name string) {
		other := connect(uri, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
		defer other.conn.Close()
		other.send(name, "from anybody")
		accept(c.receiver(name, nil), "from anybody")
	},
}

func run(name, uri string) (outcome string) {
	defer func() {
		if why := recover(); why != nil {
			outcome = fmt.Sprintf("failed %s: %v", name, why)
		}
	}()
	c := connect(uri, nil)
	defer c.conn.Close()
	scenarios[name](c, uri, "go."+name)
	return "ok " + name
}

func main() {
	uri := "amqp://127.0.0.1:" + os.Args[1]
	for _, name := range os.Args[2:] {
		fmt.Println(run(name, uri))
	}
}
