# A Ruby worker as people write them: prefetch 1, each message acknowledged once it has been handled.
#
#   ruby worker.rb HOST PORT QUEUE VERSION PREFETCH HANDLED
#
# Prints "got BODY REDELIVERED" for each message, then "acknowledged BODY".  After HANDLED messages it prints
# "holding BODY" instead and keeps that message and those behind it until it is killed; HANDLED -1: never.

require "stomp"

host, port, queue, version, prefetch, handled = ARGV
handled = handled.to_i
$stdout.sync = true

headers = version == "1.0" ? {} : { "accept-version" => version, "host" => host }
connection = Stomp::Connection.new(
  hosts: [{ host: host, port: port.to_i }],
  reliable: false,
  connect_headers: headers
)
raise "agreed on #{connection.protocol} instead of #{version}" unless connection.protocol == version

ack_mode = version == "1.0" ? "client" : "client-individual"
connection.subscribe(queue, { "ack" => ack_mode, "activemq.prefetchSize" => prefetch, "id" => "worker" }, "worker")

count = 0
loop do
  message = connection.receive
  raise "connection lost" if message.nil?
  raise "#{message.command}: #{message.headers} #{message.body}" unless message.command == "MESSAGE"
  puts "got #{message.body} #{message.headers["redelivered"] || "false"}"
  if count == handled
    puts "holding #{message.body}"
    sleep
  end
  id = version == "1.2" ? message.headers["ack"] : message.headers["message-id"]
  connection.ack(id, { "subscription" => "worker", "id" => id })
  puts "acknowledged #{message.body}"
  count += 1
end
