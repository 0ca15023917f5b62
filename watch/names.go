package watch

import "fmt"

// Names returns the names of the clocks in the order in which they are shown.
func Names() []string { return []string{Startup, Idle, Tool, Stall, Total, Completion, Grace} }

// Strings says each clock as Parse reads it, by its name.
func (c Clocks) Strings() map[string]string {
	return map[string]string{
		Startup: Format(c.Startup), Idle: Format(c.Idle), Tool: Format(c.Tool), Stall: Format(c.Stall),
		Total: Format(c.Total), Completion: Format(c.Completion), Grace: Format(c.Grace),
	}
}

// Validate refuses negative limits.
func (l Limits) Validate() error {
	for _, x := range []struct {
		name string
		n    int64
	}{{"memory", l.Memory}, {"processes", int64(l.Procs)}, {"output", l.Output}, {TokenLimit, l.Tokens}, {SubagentLimit, int64(l.Subagents)}} {
		if x.n < 0 {
			return fmt.Errorf("a limit on %s of %d: give a positive number, or leave it out", x.name, x.n)
		}
	}
	if !(l.CostUSD >= 0 && l.CostUSD < 1e12) { // also true for NaN
		return fmt.Errorf("a limit on %s of %v: give a positive number of USD, or leave it out", CostLimit, l.CostUSD)
	}
	return nil
}
