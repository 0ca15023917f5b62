package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Dial connects to an address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Upstream is a Dial that goes through the proxy which the user's environment
// names (HTTPS_PROXY, ALL_PROXY, NO_PROXY), as the agent would without a sandbox.
// dial is for the rest; nil is net.Dialer's. A proxy is asked with CONNECT.
func Upstream(env map[string]string, dial Dial) Dial {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	get := func(names ...string) string {
		for _, n := range names {
			if env[n] != "" {
				return env[n]
			}
		}
		return ""
	}
	raw := get("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
	not := get("NO_PROXY", "no_proxy")
	if raw == "" {
		return dial
	}
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if direct(host, not) {
			return dial(ctx, network, address)
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, fmt.Errorf("the proxy of this machine cannot be used from a sandbox: http and https ones can") // its URL may hold a password
		}
		return connect(ctx, dial, u, address)
	}
}

func connect(ctx context.Context, dial Dial, u *url.URL, address string) (_ net.Conn, err error) {
	via, err := Address(u.Scheme + "://" + u.Host)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, "tcp", via)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if u.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: u.Hostname()})
	}
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	head := ""
	if u.User != nil {
		password, _ := u.User.Password()
		head = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)) + "\r\n"
	}
	if _, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", address, address, head); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy %s says %s", via, res.Status)
	}
	_ = conn.SetDeadline(time.Time{})
	return &buffered{conn, r}, nil
}

// buffered is a connection of which something was read already.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

func (b *buffered) CloseWrite() error {
	if h, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil // the other direction may still be under way
}

// direct says that a host is reached without a proxy: loopback, and what
// NO_PROXY lists.
func direct(host, not string) bool {
	ip, ipErr := netip.ParseAddr(host)
	if host == "localhost" || ipErr == nil && ip.IsLoopback() {
		return true
	}
	host = strings.ToLower(host)
	for _, n := range strings.FieldsFunc(strings.ToLower(not), func(r rune) bool { return r == ',' || r == ' ' }) {
		if n == "*" {
			return true
		}
		if prefix, err := netip.ParsePrefix(n); err == nil && ipErr == nil && prefix.Contains(ip) {
			return true
		}
		n = strings.TrimPrefix(strings.TrimPrefix(n, "*"), ".")
		if n != "" && (host == n || strings.HasSuffix(host, "."+n)) {
			return true
		}
	}
	return false
}
