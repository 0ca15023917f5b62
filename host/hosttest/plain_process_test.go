//go:build linux && real

package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rein-run/rein/host/driver"
)

type plainProcess struct {
	d       *plain
	spec    *driver.Spec
	out     driver.Output
	cmd     *exec.Cmd
	inMu    sync.Mutex
	in      *os.File
	part    []byte // of a line that is not whole yet
	readers sync.WaitGroup
	outMu   sync.Mutex
	stop    chan struct{} // closed to stop the sampler
	dead    chan struct{} // the leader is over
	done    chan struct{}

	inClosed chan struct{}

	mu       sync.Mutex
	signaled bool
	ended    bool
	lost     bool
	waits    int
	exit     driver.Exit
}

func (p *plainProcess) is(f string) bool { return p.d.is(f) }
func (p *plainProcess) fault() string    { return p.d.fault }

func (p *plainProcess) read(s driver.Stream, r *os.File) {
	defer p.readers.Done()
	defer r.Close()
	b := make([]byte, 64<<10)
	var hoard []byte
	if p.spec.Duplex && p.is("writes all before it reads") {
		select {
		case <-p.inClosed:
		case <-p.dead:
		}
	}
	for {
		n, err := r.Read(b)
		data := b[:n]
		if p.is("stops reading at the exit") || p.is("waits for the leader only") || p.is("stops reading stderr at the exit") && s == driver.Stderr {
			time.Sleep(20 * time.Millisecond) // that there is something left then
		}
		switch {
		case n == 0:
		case p.is("drops stderr") && s == driver.Stderr:
			data = nil
		case p.is("decodes output"):
			data = []byte(strings.ToValidUTF8(string(data), "\ufffd"))
		case p.is("translates newlines"):
			data = []byte(strings.ReplaceAll(string(data), "\r", ""))
		case p.is("limits a line") && len(data) == len(b):
			data = data[:len(data)-1]
		case p.is("cuts the tail") && p.wasSignaled():
			data = nil
		}
		if p.is("buffers without bound") {
			hoard = append(hoard, data...)
			data = nil
		}
		if len(data) > 0 {
			p.give(s, data)
		}
		if err != nil {
			break
		}
	}
	if len(hoard) > 0 {
		p.give(s, hoard)
	}
}

func (p *plainProcess) give(s driver.Stream, data []byte) {
	if p.is("mixes its commands") {
		p.d.mu.Lock()
		if n := len(p.d.all); n > 0 {
			p = p.d.all[n-1]
		}
		p.d.mu.Unlock()
	}
	p.mu.Lock()
	if s == driver.Stdout {
		p.exit.Stdout += int64(len(data))
	} else {
		p.exit.Stderr += int64(len(data))
	}
	p.mu.Unlock()
	if !p.is("gives both streams at once") {
		p.outMu.Lock()
		defer p.outMu.Unlock()
	}
	p.out.Data(s, data)
}

func (p *plainProcess) wasSignaled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signaled
}

func (p *plainProcess) sample() {
	o, ok := p.out.(driver.Sampler)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ok && !p.is("takes no samples") {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		m := p.members()
		p.mu.Lock()
		p.exit.RSSMax = max(p.exit.RSSMax, int64(len(m))<<20)
		p.mu.Unlock()
		o.Sample(driver.Sample{Procs: len(m), RSS: int64(len(m)) << 20})
	}
}

func (p *plainProcess) members() []driver.Proc {
	m, _ := scan(p.spec.ID)
	return m
}

// end signals the members until none is left, or once when sig can be ignored.
func (p *plainProcess) end(sig syscall.Signal) {
	if p.is("kills the leader only") {
		p.cmd.Process.Signal(sig)
		return
	}
	if p.is("kills the group only") {
		syscall.Kill(-p.cmd.Process.Pid, sig)
		return
	}
	for empty := 0; empty < 2; {
		m := p.members()
		empty++
		for _, q := range m {
			empty = 0
			end(q, sig)
		}
		if sig != syscall.SIGKILL || p.is("scans once") {
			return
		}
	}
}

func (p *plainProcess) watch(or, er *os.File) {
	if p.is("ends at the end of output") {
		p.readers.Wait()
		p.mu.Lock()
		p.exit.Reason = driver.Exited
		p.mu.Unlock()
		close(p.dead)
		close(p.stop)
		close(p.done)
		p.cmd.Wait()
		return
	}
	_ = p.cmd.Wait() // the state says it all
	p.mu.Lock()
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.exit.Reason = driver.Exited
	if p.signaled {
		p.exit.Reason = driver.Killed
	}
	if ws.Signaled() {
		if !p.signaled {
			p.exit.Reason = driver.Signaled
		}
		p.exit.Signal = map[syscall.Signal]string{9: "SIGKILL", 15: "SIGTERM", 11: "SIGSEGV", 2: "SIGINT"}[ws.Signal()]
		if p.is("merges signal and code") {
			code := 128 + int(ws.Signal())
			p.exit.Reason, p.exit.Signal, p.exit.Code = driver.Exited, "", &code
		}
	} else {
		code := ws.ExitStatus()
		if p.is("knows one code of failure") {
			code = min(code, 1)
		}
		if !p.signaled || !p.is("forgets the code of what it stopped") {
			p.exit.Code = &code
		}
	}
	close(p.dead)
	lost := p.lost
	p.mu.Unlock()

	if p.is("stops reading at the exit") {
		or.Close()
		er.Close()
	}
	if p.is("stops reading stderr at the exit") {
		er.Close()
	}
	eof := make(chan struct{})
	go func() { p.readers.Wait(); close(eof) }()
	drain := p.spec.Drain
	if drain == 0 {
		drain = time.Second
	}
	held := false
	if !p.is("drains without bound") {
		select {
		case <-eof:
		case <-time.After(drain):
			held = true
		}
	}
	asked := p.wasSignaled()
	if left := p.members(); len(left) > 0 && !lost && !p.is("leaves leftovers") {
		p.mu.Lock()
		if !asked && !p.is("does not name leftovers") {
			p.exit.Leftovers = left
			if p.is("names ten leftovers") {
				p.exit.Leftovers = left[:min(len(left), 10)]
			}
		}
		if !asked && held && !p.is("does not name holders") {
			for _, q := range left {
				if p.holds(q, 1) || p.holds(q, 2) && !p.is("looks for holders of stdout only") {
					p.exit.HeldBy = append(p.exit.HeldBy, q)
				}
			}
		}
		p.mu.Unlock()
		if !p.is("gives leftovers no grace") {
			if !asked {
				p.end(syscall.SIGTERM)
			}
			for begin := time.Now(); len(p.members()) > 0 && time.Since(begin) < p.grace(); {
				time.Sleep(5 * time.Millisecond)
			}
		}
		p.end(syscall.SIGKILL)
	}
	if lost {
		p.end(syscall.SIGKILL)
	}
	select {
	case <-eof:
	case <-time.After(2 * time.Second):
		if p.is("leaves leftovers") || p.is("kills the leader only") || p.is("kills the group only") {
			or.Close()
			er.Close()
		}
		<-eof
	}
	close(p.stop)
	if lost {
		p.mu.Lock()
		p.exit = driver.Exit{Reason: driver.Lost, Detail: "the stream was cut", Containment: driver.ByHost}
		p.mu.Unlock()
	}
	p.inMu.Lock()
	p.closeIn()
	p.inMu.Unlock()
	p.mu.Lock()
	p.ended = true
	if p.is("counts the leader among the leftovers") {
		p.exit.Leftovers = append(p.exit.Leftovers, driver.Proc{PID: p.cmd.Process.Pid, Name: "leader"})
	}
	p.mu.Unlock()
	close(p.done)
	if p.is("gives data after the end") {
		time.Sleep(5 * time.Millisecond)
		p.out.Data(driver.Stdout, []byte("late"))
	}
}

func (p *plainProcess) holds(q driver.Proc, fd int) bool {
	to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", q.PID, fd))
	return strings.HasPrefix(to, "pipe:")
}

func (p *plainProcess) grace() time.Duration {
	if p.spec.Grace > 0 {
		return p.spec.Grace
	}
	return time.Second
}

func (p *plainProcess) closeIn() {
	if p.in != nil {
		p.in.Close()
		p.in = nil
		close(p.inClosed)
	}
}

func (p *plainProcess) Write(ctx context.Context, b []byte) error {
	p.inMu.Lock()
	w := p.in
	p.inMu.Unlock()
	if w == nil {
		if p.is("writes after the end") {
			return nil
		}
		return driver.ErrClosed
	}
	if p.is("drops early writes") {
		select {
		case <-p.dead:
		case <-time.After(10 * time.Millisecond):
			p.d.mu.Lock()
			p.waits++
			first := p.waits == 1
			p.d.mu.Unlock()
			if first {
				return nil
			}
		}
	}
	if p.is("reorders writes") {
		b = slices.Clone(b)
		p.mu.Lock()
		p.waits++
		odd := p.waits%2 == 1
		p.mu.Unlock()
		if odd {
			time.AfterFunc(20*time.Millisecond, func() { w.Write(b) })
			return nil
		}
	}
	if p.is("keeps the caller's buffer") {
		time.AfterFunc(time.Millisecond, func() { w.Write(b) })
		return nil
	}
	switch p.fault() {
	case "gives input line by line":
		p.part = append(p.part, b...)
		i := bytes.LastIndexByte(p.part, '\n') + 1
		b, p.part = p.part[:i], p.part[i:]
	case "translates newlines on the way in":
		b = bytes.ReplaceAll(b, []byte("\r"), []byte("\n"))
	case "reads all before it writes":
		select {
		case <-p.dead:
		case <-ctx.Done():
		}
	}
	deadline, _ := ctx.Deadline()
	if !p.is("writes without bound") {
		w.SetWriteDeadline(deadline)
		stop := context.AfterFunc(ctx, func() { w.SetWriteDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	_, err := w.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE) && p.is("ends when stdin is closed"):
		p.Kill(ctx)
		return driver.ErrClosed
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		return driver.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.DeadlineExceeded
	}
	return err
}

func (p *plainProcess) CloseStdin(context.Context) error {
	p.inMu.Lock()
	defer p.inMu.Unlock()
	if !p.is("does not close stdin") {
		p.closeIn()
	}
	return nil
}

// begin notes that a signal is sent, unless the leader is over.
func (p *plainProcess) begin() {
	// The leader may be a zombie that watch has not waited for yet.
	if m := p.members(); !slices.ContainsFunc(m, func(q driver.Proc) bool { return q.PID == p.cmd.Process.Pid }) &&
		!p.is("calls every end after a kill killed") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signaled = true
	if p.is("calls every end after a kill killed") {
		p.exit.Reason = driver.Killed
	}
}

func (p *plainProcess) Signal(_ context.Context, sig driver.Signal) error {
	s := syscall.SIGTERM
	if sig == driver.Interrupt && !p.is("knows no interrupt") {
		s = syscall.SIGINT
	}
	p.begin()
	if p.is("signals the leader only") {
		p.cmd.Process.Signal(s)
		return nil
	}
	p.end(s)
	return nil
}

func (p *plainProcess) Kill(ctx context.Context) error {
	p.begin()
	if p.is("kills behind the output") {
		p.outMu.Lock()
		defer p.outMu.Unlock()
	}
	if p.is("reads all before it kills") {
		all := make(chan struct{})
		go func() { p.readers.Wait(); close(all) }()
		select {
		case <-all:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.is("ends its other commands too") {
		for _, q := range p.d.commands() {
			q.end(syscall.SIGKILL)
		}
	}
	if p.is("ends the stream, not the command") {
		p.mu.Lock()
		defer p.mu.Unlock()
		return nil
	}
	p.end(syscall.SIGKILL)
	if p.is("has no second kill") {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waits++
		if p.waits > 1 {
			return errors.New("no such process")
		}
	}
	select {
	case <-p.dead:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *plainProcess) Wait(ctx context.Context) (driver.Exit, error) {
	if p.is("waits for the leader only") {
		select {
		case <-p.dead:
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.exit, nil
		case <-ctx.Done():
			return driver.Exit{}, ctx.Err()
		}
	}
	done := ctx.Done()
	if p.is("ends when Wait gives up") {
		context.AfterFunc(ctx, func() { p.end(syscall.SIGKILL) })
	}
	select {
	case <-p.done:
	case <-done:
		if p.is("ends when Wait gives up") {
			return driver.Exit{Reason: driver.Killed}, nil
		}
		return driver.Exit{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits++
	if p.is("ends twice") && p.waits > 1 {
		return driver.Exit{Reason: driver.Killed}, nil
	}
	return p.exit, nil
}
