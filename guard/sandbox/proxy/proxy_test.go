package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serve starts p on a Unix socket and returns a client that goes through it.
func serve(t *testing.T, p *Proxy) (*http.Client, string, context.CancelFunc) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	tr := &http.Transport{DialContext: dial, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"})}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, socket, cancel
}

// model streams one line, waits until the client has it, and sends the next.
func model(t *testing.T, tls bool) (*httptest.Server, chan struct{}) {
	next := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "one %s\n", r.Host)
		w.(http.Flusher).Flush()
		select {
		case <-next:
		case <-r.Context().Done():
		}
		io.WriteString(w, "two\n")
	}))
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s, next
}

func TestStreamsToTheModel(t *testing.T) {
	for _, tls := range []bool{false, true} {
		s, next := model(t, tls)
		address, err := Address(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		client, _, _ := serve(t, &Proxy{Allow: []string{address}})
		if tls {
			client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
		}
		res, err := client.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(res.Body)
		if line, err := r.ReadString('\n'); err != nil || line != "one "+address+"\n" {
			t.Fatalf("%q %v", line, err)
		}
		close(next) // only now: the first line was not held back
		if line, err := r.ReadString('\n'); err != nil || line != "two\n" {
			t.Fatalf("%q %v", line, err)
		}
		res.Body.Close()
	}
}

func TestNothingElse(t *testing.T) {
	s, next := model(t, false)
	close(next)
	address, _ := Address(s.URL)
	p := &Proxy{Allow: []string{"api.example.com:443"}, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, io.EOF
	}}
	client, socket, _ := serve(t, p)
	res, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "api.example.com:443") {
		t.Errorf("%s: %s", res.Status, body)
	}
	if _, err := client.Get("https://" + address); err == nil {
		t.Error("a tunnel to another address")
	}
	if !slices.Equal(p.Refused(), []string{address}) {
		t.Errorf("refused: %v", p.Refused())
	}

	// What is dialled counts, not what the request calls itself.
	for _, request := range []string{
		"GET http://" + address + "/ HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
		"GET https://api.example.com:443/ HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
		"CONNECT " + address + " HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
		"CONNECT evil.api.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT api.example.com:4430 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT api.example.com HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, request)
		line, _ := bufio.NewReader(c).ReadString('\n')
		if !strings.Contains(line, " 403 ") && !strings.Contains(line, " 400 ") {
			t.Errorf("%q: %q", request, line)
		}
		c.Close()
	}
}

// When the run is over, so is every connection.
func TestEndsWithTheRun(t *testing.T) {
	s, _ := model(t, true)
	address, _ := Address(s.URL)
	client, _, cancel := serve(t, &Proxy{Allow: []string{address}})
	client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	res, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the answer ended as if it were whole")
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.example.com": "api.example.com:443", "http://h/x": "h:80", "http://127.0.0.1:8080/v1": "127.0.0.1:8080",
		"https://[::1]:1": "[::1]:1", "api.example.com": "", "ftp://h": "", "": "", "http://": "",
	} {
		if got, err := Address(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}
