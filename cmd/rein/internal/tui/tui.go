// Package tui is what `rein run` shows on stderr: one live line on a terminal,
// plain lines on a pipe, and the report's summary.
package tui

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/meter"
)

// Options of New.
type Options struct {
	Quiet bool // nothing but what a caller writes itself
}

// Screen writes to one file. Its methods may be called concurrently.
type Screen struct {
	w     *os.File
	quiet bool
	live  bool // a terminal: redraw one line
	color bool

	mu     sync.Mutex
	run    *rein.Run
	room   float64 // lines that may be written now
	lastAt time.Time
	drawn  bool
	warned int // warnings that were said
	stop   chan struct{}
	done   chan struct{}
}

// New looks at the file once: whether it is a terminal, and whether colour is
// wanted (NO_COLOR, TERM=dumb).
func New(w *os.File, o *Options) *Screen {
	if o == nil {
		o = &Options{}
	}
	s := &Screen{w: w, quiet: o.Quiet, room: plainBurst, lastAt: time.Now()}
	s.live = !s.quiet && term.IsTerminal(int(w.Fd())) && os.Getenv("TERM") != "dumb"
	_, no := os.LookupEnv("NO_COLOR")
	s.color = s.live && (!no || os.Getenv("NO_COLOR") == "")
	return s
}

const (
	redraw = 200 * time.Millisecond
	// plainBurst and plainEvery keep a chatty agent from flooding a log: so many
	// lines at once, and one more each plainEvery.
	plainBurst = 20
	plainEvery = time.Second
)

// Start says what was started and keeps the live line.
func (s *Screen) Start(r *rein.Run) {
	if s.quiet {
		return
	}
	p := r.Plan()
	model := p.Model
	if model == "" {
		model = "its default model"
	}
	version := p.Version
	if version == "" {
		version = "of unknown version"
	}
	mode := string(p.Mode)
	if p.Sandbox.Kind != rein.SandboxNone {
		mode += " · sandbox " + p.Sandbox.Kind
	}
	pays := ""
	if p.Billing != rein.BillingUnknown {
		pays = " · paid by " + strings.TrimPrefix(p.Billing, rein.BillingKey)
	}
	s.line("%s %s · %s · %s%s · %s", s.bold(p.Agent), version, model, mode, pays, s.dim("run "+r.ID()))
	if p.Sandbox.Kind == rein.SandboxLandlock { // less than what a sandbox is known for
		for _, gap := range p.Sandbox.Gaps {
			s.line("%s the sandbox: %s", paint(s.color).yellow("!"), Clean(gap))
		}
	}
	s.warn(p.Warnings)
	s.mu.Lock()
	s.run, s.stop, s.done = r, make(chan struct{}), make(chan struct{})
	s.mu.Unlock()
	if !s.live {
		close(s.done)
		return
	}
	go func() {
		defer close(s.done)
		t := time.NewTicker(redraw)
		defer t.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-t.C:
				s.warn(r.State().Warnings)
				s.draw()
			}
		}
	}()
}

// warn writes what was not said yet.
func (s *Screen) warn(all []string) {
	for ; s.warned < len(all); s.warned++ {
		s.line("%s %s", paint(s.color).yellow("!"), Clean(all[s.warned]))
	}
}

// Stop removes the live line.
func (s *Screen) Stop() {
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop = nil
	s.mu.Unlock()
	if stop == nil {
		return
	}
	close(stop)
	<-done
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
}

// Hooks are what the screen wants to be told of a run: on a pipe, what the agent
// does becomes lines. The live line looks for itself, and nil spares a flood of
// readings the way to somebody who does not want them.
func (s *Screen) Hooks() *rein.Hooks {
	if s.quiet || s.live {
		return nil
	}
	return &rein.Hooks{Reading: s.reading}
}

// reading writes a line for what the agent does. What it merely is (thinking,
// writing) is for the live line.
func (s *Screen) reading(r agent.Reading) {
	if r.Activity == "" {
		return
	}
	switch r.Kind {
	case agent.KindToolStarted, agent.KindRetry, agent.KindDenied, agent.KindError:
	default:
		return
	}
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run == nil {
		return
	}
	s.warn(run.State().Warnings)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.room = min(plainBurst, s.room+float64(now.Sub(s.lastAt))/float64(plainEvery))
	s.lastAt = now
	if s.room < 1 {
		return
	}
	s.room--
	st := s.run.State()
	fmt.Fprintf(s.w, "rein: %s %s\n", elapsed(st.Elapsed), Clean(s.run.Redact(r.Activity)))
}

func (s *Screen) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return
	}
	st := s.run.State()
	width, _, err := term.GetSize(int(s.w.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	text := fmt.Sprintf("%s  %s", elapsed(st.Elapsed), activity(st))
	right := counts(st.Usage)
	if right != "" {
		text += "  " + right
	}
	fmt.Fprintf(s.w, "\r\x1b[K%s", s.dim(Fit(Clean(text), width-1)))
	s.drawn = true
}

func activity(st rein.State) string {
	if st.Activity != "" {
		return st.Activity
	}
	return string(st.Watch.Phase)
}

func (s *Screen) erase() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

func (s *Screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	prefix := "rein: "
	if s.live {
		prefix = ""
	}
	text := prefix + fmt.Sprintf(format, args...)
	if s.live {
		text = Wrap(text, Width(s.w))
	}
	fmt.Fprintln(s.w, text)
}

// Pause says why and how long is waited before another attempt.
func (s *Screen) Pause(rep *rein.Report, p rein.Pause) {
	if s.quiet {
		return
	}
	s.line("%s", paint(s.color).yellow(Clean(rep.Failure)))
	next := "the task is begun anew"
	if p.Session != "" {
		next = "session " + p.Session + " goes on"
	}
	if p.Limit {
		s.line("waiting for the limit to be reset at %s (%s), then %s; Ctrl-C ends the wait", ClockTime(p.Until), elapsed(p.For), Clean(next))
		return
	}
	s.line("attempt %d in %s, then %s", p.Attempt, elapsed(p.For), Clean(next))
}

// ClockTime is a time as the clock on this wall will show it.
func ClockTime(t time.Time) string {
	t = t.Local()
	if y, m, d := time.Now().Date(); t.Equal(time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())) {
		return t.Format("15:04")
	}
	return t.Format("Mon Jan 2 15:04")
}

// Report writes the summary of a run that is over.
func (s *Screen) Report(rep *rein.Report, dir string) {
	if s.quiet && rep.OK {
		return
	}
	var b strings.Builder
	Summary(&b, rep, dir, s.color)
	for line := range strings.Lines(b.String()) {
		s.line("%s", strings.TrimRight(line, "\n"))
	}
}

// Summary is the report in a few lines, for a person; they are broken at the
// width of the terminal that w is.
func Summary(w io.Writer, rep *rein.Report, dir string, color bool) {
	p := paint(color)
	head := p.green("ok")
	if !rep.OK {
		head = p.red(Clean(rep.Failure))
	}
	parts := []string{head, elapsed(rep.EndedAt.Sub(rep.StartedAt))}
	if rep.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d of %s", rep.Attempt, Clean(rep.RetryOf)))
	}
	if n := rep.Usage.ToolCalls; n > 0 {
		parts = append(parts, plural(n, "tool call"))
	}
	if c := counts(rep.Usage); c != "" {
		parts = append(parts, c)
	}
	width := Width(w)
	fmt.Fprintln(w, Wrap(strings.Join(parts, " · "), width))
	if n := len(rep.Nested); n > 0 {
		var in rein.Usage
		for _, x := range rep.Nested {
			in = in.Plus(x.Usage)
		}
		fmt.Fprintf(w, "  and %s that it started: %s\n", plural(n, "run"), cmp.Or(counts(in), "nothing used"))
	}
	if n := len(rep.Attempts); n > 1 {
		fmt.Fprintf(w, "  all %d attempts: %s\n", n, cmp.Or(counts(rep.Spent()), "nothing used"))
	}
	for _, f := range rep.Findings {
		mark := p.red("✗")
		if f.Severity == rein.Warning {
			mark = p.yellow("!")
		}
		fmt.Fprintln(w, Wrap(fmt.Sprintf("  %s %s: %s", mark, f.Kind, Clean(f.Evidence)), width))
	}
	undo := slices.DeleteFunc(slices.Clone(rep.Boundary.Changes), func(c rein.Change) bool { return c.Restore == "" })
	for _, c := range undo {
		fmt.Fprintf(w, "    %s %s: undo with %s\n", c.What, Clean(c.Ref), Clean(c.Restore))
	}
	if len(undo) > 1 {
		// A push moves the remote-tracking reference that another command expects
		// where it was left.
		fmt.Fprintln(w, "    these are to be run in this order: one expects what the other leaves")
	}
	var proofs []string
	switch {
	case rep.Boundary.Clean && len(rep.Boundary.Allowed) > 0:
		proofs = append(proofs, p.dim("nothing but what was granted was committed or moved"))
	case rep.Boundary.Checked && rep.Boundary.Clean:
		proofs = append(proofs, p.dim("nothing was committed, no ref moved"))
	case !rep.Boundary.Checked && len(rep.Boundary.Changes) == 0:
		proofs = append(proofs, p.yellow("commits and refs were not checked: "+Clean(rep.Boundary.Why)))
	}
	if rep.Boundary.Checked {
		for _, r := range rep.Boundary.Remotes {
			if !r.Checked {
				proofs = append(proofs, p.yellow("remote "+Clean(r.Name)+" was not compared ("+Clean(r.Why)+")"))
			}
		}
	}
	switch {
	case len(rep.Survivors) > 0:
	case rep.Containment == "" && rep.End.Kind != rein.NotStarted:
		proofs = append(proofs, p.red("what is left running is not known"))
	case rep.End.Kind != rein.NotStarted:
		proofs = append(proofs, p.dim("no process is left ("+string(rep.Containment)+")"))
	}
	if len(proofs) > 0 {
		fmt.Fprintln(w, Wrap("  "+strings.Join(proofs, p.dim(", ")), width))
	}
	fmt.Fprintln(w, p.dim("  "+Clean(dir)))
}

func counts(u rein.Usage) string {
	if u.InputTokens == 0 && u.OutputTokens == 0 && u.CacheReadTokens == 0 {
		return ""
	}
	s := fmt.Sprintf("%s in, %s out", short(u.InputTokens+u.CacheWriteTokens), short(u.OutputTokens))
	if u.CacheReadTokens > 0 {
		s += ", " + short(u.CacheReadTokens) + " cached"
	}
	if u.CostSource != "none" && u.CostUSD > 0 {
		s += ", " + Money(u.CostUSD)
		if u.CostSource == meter.FromTable {
			s += " (estimate)"
		}
	}
	return s
}

// Money writes an amount of USD: cents, and below a cent the first digits that
// are not 0.
func Money(usd float64) string {
	if usd >= 0.01 || usd <= 0 {
		return fmt.Sprintf("$%.2f", usd)
	}
	return fmt.Sprintf("$%.2g", usd)
}

// Source says in words where the cost of a run comes from.
func Source(u rein.Usage) string {
	switch u.CostSource {
	case meter.FromAgent:
		return "told by the agent"
	case meter.FromTable:
		return "estimate by list prices of " + meter.TableDate
	}
	return u.CostSource
}

func short(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
