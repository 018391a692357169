package kube

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Front is the address at which clients find an API server that is restarted on another port.
type Front struct {
	listener net.Listener
	mutex    sync.Mutex
	to       string
	open     map[net.Conn]bool
}

// front starts one that leads nowhere yet: whoever connects is cut off.
func front(t *testing.T) *Front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := &Front{listener: listener, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		front.lead("")
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go front.pass(client)
		}
	}()
	return front
}

// lead has those who come led to an address; those who are led to another are cut off.
func (front *Front) lead(to string) {
	front.mutex.Lock()
	defer front.mutex.Unlock()
	front.to = to
	for one := range front.open {
		_ = one.Close()
	}
	clear(front.open)
}

// keep has a connection closed by the next change; false where there has been one.
func (front *Front) keep(to string, connections ...net.Conn) bool {
	front.mutex.Lock()
	defer front.mutex.Unlock()
	if front.to != to {
		return false
	}
	for _, one := range connections {
		front.open[one] = true
	}
	return true
}

func (front *Front) forget(connections ...net.Conn) {
	front.mutex.Lock()
	defer front.mutex.Unlock()
	for _, one := range connections {
		delete(front.open, one)
		_ = one.Close()
	}
}

func (front *Front) pass(client net.Conn) {
	front.mutex.Lock()
	to := front.to
	front.mutex.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil || !front.keep(to, client, server) {
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	defer front.forget(client, server)
	both := make(chan struct{}, 2)
	copy := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		both <- struct{}{}
	}
	go copy(client, server)
	go copy(server, client)
	<-both
}
