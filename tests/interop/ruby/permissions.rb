# What a writer and a reader may do; prints one line for each thing that went as it should, or raises.
#
#   ruby permissions.rb HOST PORT VERSION

require "stomp"
require "timeout"

HOST, PORT, VERSION = ARGV

def connection(login)
  headers = VERSION == "1.0" ? {} : { "accept-version" => VERSION, "host" => HOST }
  Stomp::Connection.new(
    hosts: [{ login: login, passcode: "secret", host: HOST, port: PORT.to_i }], reliable: false, connect_headers: headers
  )
end

def next_frame(connection, command)
  frame = Timeout.timeout(20) { connection.receive }
  raise "#{frame.command} instead of #{command}: #{frame.headers} #{frame.body}" unless frame.command == command
  frame
end

PLACE = "/queue/orders.declared"

writer = connection("writer")
writer.publish(PLACE, "from Ruby #{VERSION}", { "persistent" => "true", "receipt" => "sent" })
next_frame(writer, "RECEIPT")
puts "writer sends"
writer.subscribe(PLACE, { "ack" => "client" }, "s")
raise "another error" unless next_frame(writer, "ERROR").body.include?("no permission to read queue://orders.declared")
puts "writer may not receive"
reader = connection("reader")
reader.subscribe(PLACE, { "ack" => "auto" }, "s")
next_frame(reader, "MESSAGE")
puts "reader receives"
