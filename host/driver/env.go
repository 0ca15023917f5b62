package driver

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// Env holds environment variables. However it is printed, logged or marshalled,
// only the names appear: values are credentials until proved otherwise.
type Env map[string]string

// Names returns the names, sorted.
func (e Env) Names() []string { return slices.Sorted(maps.Keys(e)) }

func (e Env) String() string { return "[" + strings.Join(e.Names(), " ") + "]" }

// GoString keeps %#v from printing the values.
func (e Env) GoString() string { return "driver.Env" + e.String() }

// Format keeps every verb from printing the values.
func (e Env) Format(f fmt.State, _ rune) { fmt.Fprint(f, e.String()) }

// LogValue keeps slog from printing the values.
func (e Env) LogValue() slog.Value { return slog.StringValue(e.String()) }

// MarshalJSON writes the names as an array. Code that must pass the values on
// converts to map[string]string first, where it can be seen.
func (e Env) MarshalJSON() ([]byte, error) { return json.Marshal(e.Names()) }
