package agenttest

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// plainLines are no protocol of any CLI.
var plainLines = []string{
	"", " ", "\r", "\x00", "\x00\x00{}", "\xff\xfe\xfd", "plain text", "warning: something", "null", "true", "12", `"text"`, "[]", "{", "{{", `{"`, `{"type`,
	"data: {}", "\x1b[31mred\x1b[0m", strings.Repeat("x", 1<<20), strings.Repeat("[", 1<<16), strings.Repeat(`{"a":`, 1<<12),
}

// oddLines are JSON that no CLI prints.
var oddLines = []string{
	"{}", `{"type":"agenttest_unknown"}`, `{"type":7}`, `{"type":null}`, `{"type":{"type":"result"}}`, `{"type":""}`, `{"TYPE":"result"}`,
	`{"type":"agenttest_unknown","x":"` + strings.Repeat("y", 1<<20) + `"}`,
}

func checkReader(p *probe) {
	d, ok := p.agent.(agent.Decoder)
	if !ok {
		return
	}
	r := d.NewReader(p.Facts)
	for _, l := range plainLines {
		p.unknown(r, agent.Line{Bytes: []byte(l), Size: int64(len(l)) + 1})
	}
	for _, l := range oddLines {
		p.unknown(r, agent.Line{Bytes: []byte(l), Size: int64(len(l)) + 1})
	}
	p.unknown(r, tooLong(`{"x":"`, `","type":"agenttest_unknown"}`))
	p.end(r)

	for i, t := range p.Transcripts {
		what := fmt.Sprintf("transcript %d", i)
		p.whole(what, d, t)
		// Cut at every place of the first lines, and then here and there.
		for n := 0; n < len(t); n += 1 + n/64 {
			p.whole(fmt.Sprintf("%s, cut at %d", what, n), d, t[:n])
		}
		for _, damage := range []struct{ old, new string }{
			{`"`, `\"`},
			{`:`, `:[`},
			{`{`, `[`},
			{`0`, `-1e400`},
			{`null`, `{"a":[]}`},
			{`[`, `{"0":`},
			{`"`, "\x00"},
		} {
			p.whole(what+", damaged", d, bytes.ReplaceAll(t, []byte(damage.old), []byte(damage.new)))
		}
	}
}

// tooLong is a line of 80 MB as a reader is given it.
func tooLong(begin, end string) agent.Line {
	var e jsonline.Elider
	e.Write([]byte(begin))
	chunk := bytes.Repeat([]byte("z"), 1<<20)
	for range 80 {
		e.Write(chunk)
	}
	e.Write([]byte(end))
	b, elided := e.Line()
	return agent.Line{Bytes: b, Elided: elided, Size: 80<<20 + int64(len(begin)+len(end)) + 1}
}

// unknown wants a line to be read as unknown, once.
func (p *probe) unknown(r agent.Reader, l agent.Line) {
	n := 0
	p.line(r, l, func(x agent.Reading) {
		if n++; x.Kind != agent.KindUnknown {
			p.errorf("line %.60q is read as %s", l.Bytes, x.Kind)
		}
	})
	if n != 1 {
		p.errorf("line %.60q gives %d readings", l.Bytes, n)
	}
}

// line reads one line and looks at what every reading must be.
func (p *probe) line(r agent.Reader, l agent.Line, emit func(agent.Reading)) {
	before := bytes.Clone(l.Bytes)
	n := 0
	func() {
		defer func() {
			if v := recover(); v != nil {
				p.errorf("panic at line %.100q: %v", l.Bytes, v)
				n++
			}
		}()
		r.Read(l, func(x agent.Reading) {
			n++
			if x.Kind == "" {
				p.errorf("line %.100q: a reading without a kind", l.Bytes)
			}
			if strings.ContainsAny(x.Activity, "\r\n\x1b") || len(x.Activity) > 300 || !utf8.ValidString(x.Activity) {
				p.errorf("line %.100q: activity %.100q is no phrase of one line", l.Bytes, x.Activity)
			}
			if f := x.Failure; f != nil && (f.Class == "" || len(f.Text) > 1024) {
				p.errorf("line %.100q: failure %.300v", l.Bytes, *f)
			}
			if u := x.Usage; u != nil && (u.Scope == "" || u.Input < 0 || u.Output < 0 || u.CacheRead < 0 || u.CacheWrite < 0 || !(u.CostUSD >= 0)) {
				p.errorf("line %.100q: usage %+v", l.Bytes, *u)
			}
			if x.Kind == agent.KindTurnEnded && x.OK && x.Failure != nil {
				p.errorf("line %.100q: a turn that succeeded has a failure", l.Bytes)
			}
			if (x.Kind == agent.KindToolStarted || x.Kind == agent.KindToolFinished) && x.Tool == nil {
				p.errorf("line %.100q: %s without a tool", l.Bytes, x.Kind)
			}
			emit(x)
		})
	}()
	if n == 0 {
		p.errorf("line %.100q gives no reading", l.Bytes)
	}
	if !bytes.Equal(before, l.Bytes) {
		p.errorf("line %.100q is changed by the reader", before)
	}
}

func (p *probe) whole(what string, d agent.Decoder, t []byte) {
	before := len(p.found)
	r := d.NewReader(p.Facts)
	for line := range bytes.Lines(t) {
		p.line(r, agent.Line{Bytes: bytes.TrimSuffix(line, []byte("\n")), Size: int64(len(line))}, func(agent.Reading) {})
	}
	p.end(r)
	for i := before; i < len(p.found); i++ {
		p.found[i] = what + ": " + p.found[i]
	}
}

func (p *probe) end(r agent.Reader) {
	defer func() {
		if v := recover(); v != nil {
			p.errorf("panic at the end: %v", v)
		}
	}()
	r.End(func(agent.Reading) {})
}
