module penstock.example/interop

go 1.22

require github.com/Azure/go-amqp v1.4.0
