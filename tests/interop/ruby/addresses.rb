# What an address's settings do; the patterns are those of tests/interop/test_addresses.py.

require_relative "client"

def at(address, kind = "queue")
  "/#{kind}/#{address}.#{PREFIX}"
end

SCENARIOS = {
  "newest" => lambda {
    client = Client.new
    [%w[a 1], %w[b 2], %w[a 3]].each { |kind, body| client.send(at("newest"), body, { "kind" => kind }) }
    client.subscribe(at("newest"))
    same(client.bodies(2), %w[2 3])
  },
  "ring" => lambda {
    client = Client.new
    5.times { |number| client.send(at("ring"), number.to_s) }
    client.subscribe(at("ring"))
    same(client.bodies(2), %w[3 4])
  },
  "expired" => lambda {
    client = Client.new
    client.send(at("brief"), "late")
    client.subscribe("/queue/EXP.brief.#{PREFIX}", {}, "expired")
    client.subscribe(at("brief"), {}, "never")
    client.send(at("brief"), "late, too")
    same(client.message.headers["original-destination"], at("brief"))
  },
  "no route" => lambda {
    client = Client.new
    client.send(at("unrouted", "topic"), "nobody")
    client.subscribe("/queue/ActiveMQ.DLQ.Topic.unrouted.#{PREFIX}")
    same(client.message.headers["dlqCause"], "no-route")
  },
  "ingress" => lambda {
    client = Client.new
    client.subscribe(at("stamped"))
    client.send(at("stamped"), "1")
    raise "no time" unless client.message.headers["ingress-timestamp"].to_i > 1_700_000_000_000
  },
  "purge" => lambda {
    client = Client.new
    client.send(at("purged"), "nobody is there")
    client.subscribe(at("purged"))
    client.send(at("purged"), "seen")
    same(client.message.body, "seen")
  },
  "auto-create" => lambda {
    Client.new.refused("invalid-destination") { |connection| connection.publish(at("closed"), "1", { "receipt" => "r" }) }
  },
  "auto-delete" => lambda {
    client, watcher = Client.new, Client.new
    watcher.subscribe("/topic/ActiveMQ.Advisory.Queue", { "ack" => "auto", "selector" => "JMSType = 'Advisory'" })
    client.subscribe(at("passing"))
    client.unsubscribe(at("passing"))
    told = Array.new(2) { watcher.message.body }
    raise told.inspect unless told.all? { |body| body.include?("passing.#{PREFIX}") }
  },
  "paging" => lambda {
    client = Client.new
    40.times { |number| client.send(at("paged"), number.to_s) }
    client.subscribe(at("paged"))
    same(client.bodies(40), Array.new(40, &:to_s))
  },
  "patience" => lambda {
    first, second = Client.new, Client.new
    2.times { |number| first.send(at("patient"), number.to_s) }
    first.subscribe(at("patient"))
    raise "it did not wait" unless first.nothing?
    second.subscribe(at("patient"))
    same([first.message.body, second.message.body].sort, %w[0 1])
  },
  "exclusive" => lambda {
    first, second = Client.new, Client.new
    [first, second].each { |client| client.subscribe(at("single")) }
    2.times { |number| second.send(at("single"), number.to_s) }
    same(first.bodies(2), %w[0 1])
  },
  "max-consumers" => lambda {
    first, second = Client.new, Client.new
    first.subscribe(at("few"))
    second.refused("limit-reached") { |connection| connection.subscribe(at("few"), { "receipt" => "r" }, "s") }
  },
  "order" => lambda {
    next if VERSION == "1.0" # knows no NACK
    client = Client.new
    client.subscribe(at("ordered"), { "ack" => "client-individual", "activemq.prefetchSize" => "1" })
    2.times { |number| client.send(at("ordered"), number.to_s) }
    client.nack(client.message)
    again = client.message
    same([again.body, again.headers["JMSXDeliveryCount"]], %w[0 2])
    client.ack(again)
    same(client.message.body, "1")
  },
  "pending limit" => lambda {
    reader, sender = Client.new, Client.new
    reader.subscribe(at("ticker", "topic"), { "activemq.prefetchSize" => "1" })
    6.times { |number| sender.send(at("ticker", "topic"), number.to_s) }
    bodies = Array.new(3) do
      message = reader.message
      reader.ack(message)
      message.body
    end
    same(bodies, %w[0 4 5])
  },
  "blame" => lambda {
    lost, client = Client.new, Client.new
    2.times { |number| client.send(at("blamed"), number.to_s) }
    lost.subscribe(at("blamed"))
    lost.bodies(2)
    lost.vanish
    client.subscribe(at("blamed"))
    same(Array.new(2) { client.message.headers["JMSXDeliveryCount"] }, %w[2 2])
  },
  "past" => lambda {
    client = Client.new
    4.times { |number| client.send(at("lately", "topic"), number.to_s) }
    client.subscribe(at("lately", "topic"))
    same(client.bodies(2), %w[2 3])
  },
  "priorities" => lambda {
    client = Client.new
    %w[1 9 4].each { |priority| client.send(at("unranked"), "x", { "priority" => priority }) }
    client.subscribe(at("unranked"))
    same(Array.new(3) { client.message.headers["priority"] }, %w[1 9 4])
  },
  "watched" => lambda {
    watcher, client = Client.new, Client.new
    %w[MessageDispatched MessageConsumed].each do |event|
      watcher.subscribe("/topic/ActiveMQ.Advisory.#{event}.Queue.watched.#{PREFIX}", { "ack" => "auto" }, event)
    end
    client.subscribe(at("watched"), { "ack" => "auto" })
    client.send(at("watched"), "1")
    told = Array.new(2) { watcher.message.headers["destination"] } # 1.0 need not name the subscription
    same(told.map { |name| name.split(".")[2] }, %w[MessageDispatched MessageConsumed])
  },
  "top-up" => lambda {
    client = Client.new
    6.times { |number| client.send(at("half"), number.to_s) }
    client.subscribe(at("half"))
    held = Array.new(4) { client.message }
    client.ack(held[0])
    raise "topped up too soon" unless client.nothing?
    client.ack(held[1])
    same(client.bodies(2), %w[4 5])
  },
  "block" => lambda {
    sender, receiver = Client.new, Client.new
    20.times { |number| sender.flood(at("blocking"), number.to_s) }
    receiver.subscribe(at("blocking"), { "ack" => "auto" })
    same(receiver.bodies(20), Array.new(20, &:to_s))
  },
  "fail" => lambda {
    client = Client.new
    3.times { |number| client.send(at("failing"), number.to_s) }
    client.refused("address-full") { |connection| connection.publish(at("failing"), "x", { "receipt" => "r" }) }
  },
  "drop" => lambda {
    client = Client.new
    6.times { |number| client.send(at("dropping"), number.to_s) }
    client.subscribe(at("dropping"), { "ack" => "auto" })
    same(client.bodies(3), %w[0 1 2])
    raise "more than it may hold" unless client.nothing?
  },
  "slow consumer" => lambda {
    slow, sender = Client.new, Client.new
    20.times { |number| sender.send(at("killing"), number.to_s) }
    slow.refused("slow-consumer", true) { |connection| connection.subscribe(at("killing"), { "ack" => "client" }, "s") }
  },
  "statistics" => lambda {
    client = Client.new
    client.send(at("counted"), "1")
    client.subscribe("/temp-queue/answers", { "ack" => "auto" })
    asked = "/queue/ActiveMQ.Statistics.Destination.counted.#{PREFIX}"
    client.send(asked, "", { "reply-to" => "/temp-queue/answers", "correlation-id" => "7" })
    answer = client.message
    same(answer.headers["correlation-id"], "7")
    raise answer.body unless answer.body.include?("queue://counted.#{PREFIX}")
  },
  "kept" => lambda {
    first, second = Client.new, Client.new
    2.times { |number| first.send(at("kept"), number.to_s) }
    first.subscribe(at("kept"))
    messages = Array.new(2) { first.message }
    first.ack(messages.last)
    second.subscribe(at("kept"))
    same([messages.map(&:body), second.bodies(2)], [%w[0 1], %w[0 1]])
  },
  "pull" => lambda {
    client, place = Client.new, at("pull")
    2.times { |number| client.send(place, number.to_s) }
    client.subscribe(place, { "activemq.prefetchSize" => "0" })
    first = client.message
    raise "more than one" unless client.nothing?
    client.ack(first)
    same(client.message.body, "1")
  }
}.freeze

run(SCENARIOS)
