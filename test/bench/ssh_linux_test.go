//go:build real

package bench

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/remote"
	"github.com/rein-run/rein/host/ssh"
	"github.com/rein-run/rein/test/sshd"
)

// counting is an Output that counts, and says when the first byte came.
type counting struct {
	n     int64
	first time.Time
}

func (c *counting) Data(_ driver.Stream, p []byte) {
	if c.n == 0 {
		c.first = time.Now()
	}
	c.n += int64(len(p))
}

func sshHost(b *testing.B, url, config, keeper string) *ssh.Host {
	b.Helper()
	h, err := ssh.New(url, &ssh.Options{Config: config, Program: func(string, string) (*remote.Program, error) {
		return &remote.Program{File: keeper}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Close() })
	return h
}

// over runs argv there and returns how long it took, to the first byte and to
// the end.
func over(b *testing.B, h *ssh.Host, argv ...string) (first, all time.Duration, n int64) {
	b.Helper()
	out := &counting{}
	begin := time.Now()
	p, err := h.Start(context.Background(), &driver.Spec{ID: "bench", Argv: argv}, out)
	if err != nil {
		b.Fatal(err)
	}
	exit, err := p.Wait(context.Background())
	if err != nil || exit.Code == nil || *exit.Code != 0 {
		b.Fatalf("%v, %+v", err, exit)
	}
	return out.first.Sub(begin), time.Since(begin), out.n
}

// plainSSH does the same with the program ssh.
func plainSSH(b *testing.B, args ...string) (first, all time.Duration, n int64) {
	b.Helper()
	cmd := exec.Command("ssh", args...)
	cmd.Stderr = os.Stderr
	r, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	for {
		m, err := r.Read(buf)
		if m > 0 && n == 0 {
			first = time.Since(begin)
		}
		if n += int64(m); err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		b.Fatalf("ssh: %v", err)
	}
	return first, time.Since(begin), n
}

// BenchmarkSSHThroughput: 512 MiB from a command on another machine, which is
// this one behind sshd, against `ssh host cmd` with the same command: each with
// the cipher that its client prefers, and both with the same one.
func BenchmarkSSHThroughput(b *testing.B) {
	const size = 512 << 20
	keeper := buildKeeper(b)
	for _, cipher := range []string{"", "aes128-gcm@openssh.com"} {
		name := "own"
		o := &sshd.Options{}
		if cipher != "" {
			name, o.Config = cipher, []string{"Ciphers " + cipher}
		}
		b.Run(name, func(b *testing.B) {
			s := sshd.Start(b, o)
			h := sshHost(b, s.URL(), s.Config, keeper)
			producer := []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}
			over(b, h, "true") // connected, and the keeper is there
			dest := append([]string{"-F", s.Config, "-p", s.Port, s.User + "@127.0.0.1"}, producer...)
			for b.Loop() {
				var ratios, ps, hs []float64
				for range pairs {
					_, p, n := plainSSH(b, dest...)
					_, r, m := over(b, h, producer...)
					if n != size || m != size {
						b.Fatalf("%d and %d bytes", n, m)
					}
					ps, hs, ratios = append(ps, p.Seconds()), append(hs, r.Seconds()), append(ratios, r.Seconds()/p.Seconds())
				}
				b.ReportMetric(median(ratios), "ratio")
				b.ReportMetric(median(ps), "plain-s")
				b.ReportMetric(median(hs), "rein-s")
			}
		})
	}
}

// BenchmarkSSHStart: to the first byte of a command on a connection that is
// there, over a link of 100 ms a round trip, in round trips; against the program
// ssh with a master connection (ControlMaster). Without the latency the
// difference is what a keeper costs.
func BenchmarkSSHStart(b *testing.B) {
	keeper := buildKeeper(b)
	for _, rtt := range []time.Duration{0, 100 * time.Millisecond} {
		b.Run(rtt.String(), func(b *testing.B) {
			s := sshd.Start(b, nil)
			port := delayed(b, s.Addr(), rtt/2)
			control := filepath.Join(b.TempDir(), "c")
			config := s.WriteConfig("bench", "HostKeyAlias bench", "IdentityFile "+s.Key, "UserKnownHostsFile "+filepath.Join(s.Dir, "bench_hosts"))
			_, key, _ := strings.Cut(s.HostKey, " ")
			if err := os.WriteFile(filepath.Join(s.Dir, "bench_hosts"), []byte("bench "+key+"\n"), 0o600); err != nil {
				b.Fatal(err)
			}
			dest := []string{"-F", config, "-p", port, "-o", "ControlPath=" + control, s.User + "@127.0.0.1"}
			master := exec.Command("ssh", append([]string{"-N", "-M"}, dest...)...)
			if err := master.Start(); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { master.Process.Kill(); master.Wait() })
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(control); err == nil {
					break
				}
				if time.Now().After(end) {
					b.Fatal("no master connection")
				}
			}
			h := sshHost(b, "ssh://"+s.User+"@127.0.0.1:"+port, config, keeper)
			over(b, h, "true")
			const n = 11
			for b.Loop() {
				var ps, hs, diffs []float64
				for range n {
					p, _, _ := plainSSH(b, append(dest, "echo", "x")...)
					r, _, _ := over(b, h, "echo", "x")
					ps, hs, diffs = append(ps, ms(p)), append(hs, ms(r)), append(diffs, ms(r-p))
				}
				b.ReportMetric(median(ps), "plain-ms")
				b.ReportMetric(median(hs), "rein-ms")
				b.ReportMetric(median(diffs), "over-ms")
				if rtt > 0 {
					b.ReportMetric(median(diffs)/ms(rtt), "over-rtt")
				}
			}
		})
	}
}

// delayed is a port behind which addr is, that much further away.
func delayed(b *testing.B, addr string, each time.Duration) (port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	type piece struct {
		due time.Time
		p   []byte
	}
	pump := func(to, from net.Conn) {
		queue := make(chan piece, 1<<12)
		go func() {
			defer to.Close()
			for q := range queue {
				time.Sleep(time.Until(q.due))
				if _, err := to.Write(q.p); err != nil {
					from.Close()
				}
			}
		}()
		defer close(queue)
		for {
			p := make([]byte, 32<<10)
			n, err := from.Read(p)
			if n > 0 {
				queue <- piece{time.Now().Add(each), p[:n]}
			}
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", addr)
			if err != nil {
				c.Close()
				continue
			}
			go pump(s, c)
			go pump(c, s)
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}
