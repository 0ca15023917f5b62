// Package proxy is the way out of a sandbox that has no network: it stands
// outside and lets through what goes to the model.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Proxy is an HTTP proxy that lets through what goes to a few addresses. It is
// served on a Unix socket that the sandbox can see. TLS stays between the agent
// and the model. The zero value lets nothing through.
type Proxy struct {
	// Allow are the addresses as "host:port".
	Allow []string
	// Dial is net.Dialer.DialContext when nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	refused []string
}

const (
	maxProxied  = 256              // connections at once
	maxRefused  = 20               // addresses that are kept for the report
	dialTimeout = 30 * time.Second // a model that cannot be reached
)

// Refused are the first addresses that were asked for in vain.
func (p *Proxy) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// Serve answers on l until ctx ends, then closes it and every connection.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	transport := &http.Transport{DialContext: p.dial, DisableCompression: true, Proxy: nil}
	s := &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // what an agent makes it say is nobody's business
		Handler: &door{p, &httputil.ReverseProxy{
			Transport:     transport,
			FlushInterval: -1, // an answer is streamed
			ErrorLog:      log.New(io.Discard, "", 0),
			Rewrite:       func(*httputil.ProxyRequest) {},
		}},
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	defer transport.CloseIdleConnections()
	if err := s.Serve(&limited{l, make(chan struct{}, maxProxied)}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (p *Proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if p.Dial != nil {
		return p.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// allowed says whether address may be reached, and keeps it when not.
func (p *Proxy) allowed(address string) bool {
	address = strings.ToLower(address)
	if slices.ContainsFunc(p.Allow, func(a string) bool { return strings.ToLower(a) == address }) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(address) <= 255 && len(p.refused) < maxRefused && !slices.Contains(p.refused, address) {
		p.refused = append(p.refused, address)
	}
	return false
}

// door decides about one request.
type door struct {
	*Proxy
	plain http.Handler
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address := r.Host
	if r.Method != http.MethodConnect {
		// A request that names no host of its own would be sent to the proxy
		// itself. Host and URL can differ: what is dialled is the URL's.
		if r.URL.Scheme != "http" || r.URL.Host == "" {
			http.Error(w, "rein: the sandbox's proxy takes CONNECT and http:// only", http.StatusBadRequest)
			return
		}
		address = r.URL.Host
		r.Host = r.URL.Host
		if r.URL.Port() == "" {
			address = net.JoinHostPort(r.URL.Hostname(), "80")
		}
	}
	if !d.allowed(address) {
		http.Error(w, fmt.Sprintf("rein: refused: this run can reach only %s", strings.Join(d.Allow, ", ")), http.StatusForbidden)
		return
	}
	if r.Method == http.MethodConnect {
		d.tunnel(w, r, address)
		return
	}
	d.plain.ServeHTTP(w, r)
}

func (d *door) tunnel(w http.ResponseWriter, r *http.Request, address string) {
	out, err := d.dial(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, "rein: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	// The server's deadlines and its end are not the connection's any more.
	_ = in.SetDeadline(time.Time{})
	stop := context.AfterFunc(r.Context(), func() { in.Close(); out.Close() })
	defer stop()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	splice(in, out, buffered)
}

// splice copies both ways until both have ended. from is what of a was read
// already, and a itself behind it.
func splice(a, b net.Conn, from io.Reader) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(b, from)
		closeWrite(b)
	}()
	_, _ = io.Copy(a, b)
	closeWrite(a)
	<-done
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
		return
	}
	_ = c.Close()
}

// limited is a listener that has a bounded number of connections open.
type limited struct {
	net.Listener
	slots chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slot{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

type slot struct {
	net.Conn
	free func()
}

func (s *slot) Close() error { defer s.free(); return s.Conn.Close() }

func (s *slot) CloseWrite() error {
	if h, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return s.Close()
}

// Address is the "host:port" of a URL, by which Proxy.Allow names it.
func Address(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("%q is no URL with a host", raw)
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	default:
		return "", fmt.Errorf("%q: neither http nor https", raw)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
