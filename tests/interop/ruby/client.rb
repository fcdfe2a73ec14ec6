# A client for scripts of scenarios, and what runs them; prints "ok NAME" for each that went well, or raises.
#
#   ruby SCRIPT HOST PORT VERSION PREFIX [SCENARIO...]
#
# PREFIX stands in every destination's name, so that runs do not meet.

require "stomp"
require "timeout"

HOST, PORT, VERSION, PREFIX, *WANTED = ARGV
LIMIT = 30 # seconds for whatever must come

class Client
  def initialize(client_id = nil, connect_headers = {})
    headers = VERSION == "1.0" ? {} : { "accept-version" => VERSION, "host" => HOST }
    headers["client-id"] = client_id if client_id
    @connection = Stomp::Connection.new(
      hosts: [{ host: HOST, port: PORT.to_i }], reliable: false, connect_headers: headers.merge(connect_headers)
    )
    @receipts = 0
    @kept = []
  end

  # Sends a frame that asks for a receipt and waits for it; messages that come meanwhile are kept.
  def confirmed
    @receipts += 1
    id = "r#{@receipts}"
    yield({ "receipt" => id })
    loop do
      frame = frame_from_wire
      if frame.command == "RECEIPT"
        raise "receipt #{frame.headers["receipt-id"]} instead of #{id}" unless frame.headers["receipt-id"] == id
        return
      end
      @kept << frame
    end
  end

  def send(destination, body, headers = {})
    confirmed { |receipt| @connection.publish(destination, body, { "persistent" => "true" }.merge(headers, receipt)) }
  end

  def subscribe(destination, headers = {}, id = "s")
    confirmed { |receipt| @connection.subscribe(destination, { "ack" => "client" }.merge(headers, receipt), id) }
  end

  def unsubscribe(destination, headers = {}, id = "s")
    confirmed { |receipt| @connection.unsubscribe(destination, headers.merge(receipt), id) }
  end

  def message
    frame = @kept.shift || frame_from_wire
    raise "#{frame.command}: #{frame.headers} #{frame.body}" unless frame.command == "MESSAGE"
    frame
  end

  def bodies(count)
    Array.new(count) { message.body }
  end

  def ack(message, headers = {})
    confirmed { |receipt| @connection.ack(*named(message, headers.merge(receipt))) }
  end

  # Send without waiting for anything.
  def flood(destination, body)
    @connection.publish(destination, body, { "persistent" => "true" })
  end

  # The next frame must be an ERROR of this condition; behind messages, if some may come before.
  def refused(condition, is_late = false)
    yield @connection
    frame = Timeout.timeout(LIMIT) { @connection.receive }
    frame = Timeout.timeout(LIMIT) { @connection.receive } while is_late && frame&.command == "MESSAGE"
    raise "#{frame.command} #{frame.headers}" unless frame.command == "ERROR" && frame.headers["condition"] == condition
    frame
  end

  # Behind a receipt, everything has come that was let go before.
  def nothing?
    send("/queue/elsewhere", "")
    @kept.empty?
  end

  # Lose the connection without a word; the library has no call for that.
  def vanish
    @connection.instance_variable_get(:@socket).close
  end

  def nack(message, headers = {})
    confirmed { |receipt| @connection.nack(*named(message, headers.merge(receipt))) }
  end

  def close
    @connection.disconnect
  end

  private

  def named(message, headers)
    id = VERSION == "1.2" ? message.headers["ack"] : message.headers["message-id"]
    of = message.headers["subscription"] # 1.0 need not have one
    [id, (of ? { "subscription" => of } : {}).merge("id" => id).merge(headers)]
  end

  def frame_from_wire
    frame = Timeout.timeout(LIMIT) { @connection.receive }
    raise "connection lost" if frame.nil?
    raise "ERROR: #{frame.headers} #{frame.body}" if frame.command == "ERROR"
    frame
  end
end

def same(found, expected)
  raise "#{found.inspect} instead of #{expected.inspect}" unless found == expected
end

def queue(name)
  "/queue/#{PREFIX}.#{name}"
end

def topic(name)
  "/topic/#{PREFIX}.#{name}"
end

def run(scenarios)
  (WANTED.empty? ? scenarios.keys : WANTED).each do |name|
    scenarios.fetch(name).call
    puts "ok #{name}"
  end
end
