package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

// What goes out goes by the user's own proxy, with its login, but for loopback
// and NO_PROXY.
func TestUpstream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan *http.Request, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				asked <- r
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
			}
			c.Close()
		}
	}()
	direct := make(chan string, 1)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == l.Addr().String() {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		direct <- address
		return nil, io.EOF
	}
	env := map[string]string{"https_proxy": "http://user:pass@" + l.Addr().String(), "NO_PROXY": "localhost, .inside.example,10.0.0.0/8"}
	d := Upstream(env, dial)
	c, err := d(t.Context(), "tcp", "api.example.com:443")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := <-asked
	if r.Method != http.MethodConnect || r.Host != "api.example.com:443" || r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwYXNz" {
		t.Errorf("%s %s %v", r.Method, r.Host, r.Header)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
	for _, address := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1", "x.inside.example:1", "inside.example:1", "10.1.2.3:1"} {
		if _, err := d(t.Context(), "tcp", address); err != io.EOF || <-direct != address {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := Upstream(nil, dial)(t.Context(), "tcp", "api.example.com:443"); err != io.EOF || <-direct != "api.example.com:443" {
		t.Error(err)
	}
	if _, err := Upstream(map[string]string{"ALL_PROXY": "socks5://u:secret@h:1"}, dial)(t.Context(), "tcp", "api.example.com:443"); err == nil {
		t.Error("an unknown kind of proxy")
	}
}
