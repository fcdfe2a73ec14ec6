# What a client of ActiveMQ relies on.

require_relative "client"

SCENARIOS = {
  "error" => lambda {
    client = Client.new
    client.refused("invalid-destination") { |connection| connection.publish("/queue/bad..name", "x", { "receipt" => "r" }) }
    client.subscribe(queue("q"))
    client.send(queue("q"), "goes on")
    same(client.message.body, "goes on")
  },
  "nack" => lambda {
    next if VERSION == "1.0" # knows no NACK
    client = Client.new
    client.subscribe(queue("bad"), { "ack" => "client" })
    client.subscribe("/queue/ActiveMQ.DLQ", { "selector" => "mark = '#{PREFIX}'", "ack" => "auto" }, "dead")
    2.times { |number| client.send(queue("bad"), number.to_s, { "mark" => PREFIX }) }
    _, second = client.message, client.message
    client.nack(second)
    same(client.message.body, "1")
  }
}.freeze

run(SCENARIOS)
