# Sends persistent messages "FIRST" to "LAST", each with a receipt, and prints "sent COUNT" when all have come.
#
#   ruby producer.rb HOST PORT QUEUE VERSION FIRST LAST

require "stomp"

host, port, queue, version, first, last = ARGV
headers = version == "1.0" ? {} : { "accept-version" => version, "host" => host }
connection = Stomp::Connection.new(
  hosts: [{ host: host, port: port.to_i }],
  reliable: false,
  connect_headers: headers
)
numbers = (first.to_i..last.to_i).to_a
numbers.each { |number| connection.publish(queue, number.to_s, { "persistent" => "true", "receipt" => "r#{number}" }) }
numbers.each do |number|
  frame = connection.receive
  raise "no connection" if frame.nil?
  raise "#{frame.command}: #{frame.headers} #{frame.body}" unless frame.command == "RECEIPT"
  raise "receipt #{frame.headers["receipt-id"]} instead of r#{number}" unless frame.headers["receipt-id"] == "r#{number}"
end
connection.disconnect
puts "sent #{numbers.size}"
