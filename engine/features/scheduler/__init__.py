"""Messages that are delivered later, or again and again: ActiveMQ's scheduler and JMS' delivery delay."""
