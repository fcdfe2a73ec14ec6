from tests.support.world_clients import BrokerPeer as StompPeer
