package meter

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"sync"
)

// Price is what a model costs, in USD per million tokens. A zero field costs
// nothing.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Validate refuses what is no price.
func (p Price) Validate() error {
	for _, f := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
		if !(f >= 0 && f <= 1e6) { // also true for NaN
			return errors.New("a price is USD per million tokens: 0 to 1000000")
		}
	}
	if p == (Price{}) {
		return errors.New("a price needs input and output, in USD per million tokens")
	}
	return nil
}

func (p Price) of(c counts) float64 {
	return (p.Input*float64(c.input) + p.Output*float64(c.output) +
		p.CacheRead*float64(c.cacheRead) + p.CacheWrite*float64(c.cacheWrite)) / 1e6
}

// Prices are a user's own prices by model id. They win over the table that is
// built in. A nil map is the table alone.
type Prices map[string]Price

// Known says whether the model has a price. An id may have its provider in
// front (openrouter/anthropic/…, us.anthropic.…) and a date, a region or a
// context window behind it.
func (p Prices) Known(model string) bool {
	_, ok := p.find(model)
	return ok
}

// find looks for the row whose model is the longest beginning of the id.
func (p Prices) find(model string) (row, bool) {
	id := plainID(model)
	if id == "" {
		return row{}, false
	}
	var best row
	for name, price := range p {
		if name := plainID(name); matches(id, name) && len(name) > len(best.model) {
			best = row{model: name, price: price}
		}
	}
	if best.model != "" {
		return best, true
	}
	for _, r := range table {
		if matches(id, r.model) && len(r.model) > len(best.model) {
			best = r
		}
	}
	return best, best.model != ""
}

// cost is the price of one request. Some models cost more when the prompt is
// long, every token of that request.
func (r row) cost(c counts) float64 {
	if r.above > 0 && c.input+c.cacheRead+c.cacheWrite > r.above {
		return r.long.of(c)
	}
	return r.price.of(c)
}

// plainID is the id without its provider, in lower case and with dashes:
// gateways write claude-sonnet-4.5 for claude-sonnet-4-5.
func plainID(model string) string {
	id := strings.ToLower(strings.TrimSpace(model))
	id = id[strings.LastIndexByte(id, '/')+1:]
	for _, vendor := range []string{"anthropic.", "openai."} { // Bedrock: us.anthropic.claude-…
		if i := strings.Index(id, vendor); i >= 0 {
			id = id[i+len(vendor):]
		}
	}
	return strings.ReplaceAll(id, ".", "-")
}

// behind is what may follow the name of a model and leave it the same model: a
// date, a release, a window. Anything else ("-mini", "-9") is another model,
// whose price is not known: none is better than a wrong one.
var behind = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(-latest|[-@](20\d{6}|20\d{2}-[01]\d-[0-3]\d)|@latest|@default|-v\d{1,2}|:\d{1,2}|\[[a-z0-9]{1,8}\])*$`)
})

func matches(id, name string) bool {
	rest, ok := strings.CutPrefix(id, name)
	return ok && name != "" && len(rest) < 64 && behind().MatchString(rest)
}

// row is one line of the table.
type row struct {
	model string
	price Price
	// Above so many tokens of prompt, the cache included, a request costs long.
	above int64
	long  Price
}

// TableDate is the day on which the built-in prices were last looked at.
const TableDate = "2026-11-30"

// table are list prices without batch, priority or regional surcharges, of
// cache writes the ones for five minutes.
//
// claude-…: Anthropic's price list (platform.claude.com, "Pricing"), and what
// claude 2.1.332 charges in its results for opus-4-8, opus-5-5 and sonnet-5-5,
// recorded 2026-11-30.
//
// gpt-…: OpenAI's price list as pi 1.6.0 carries it (@earendil-works/pi-ai,
// npm, seen 2026-11-30).
var table = []row{
	{model: "claude-fable-5", price: Price{10, 50, 1, 12.5}},
	{model: "claude-fable-5-1", price: Price{10, 50, 0.25, 12.5}},
	{model: "claude-opus-4-1", price: Price{15, 75, 1.5, 18.75}},
	{model: "claude-opus-4-5", price: Price{5, 25, 0.5, 6.25}},
	{model: "claude-opus-4-6", price: Price{5, 25, 0.5, 6.25}},
	{model: "claude-opus-4-7", price: Price{5, 25, 0.5, 6.25}},
	{model: "claude-opus-4-8", price: Price{5, 25, 0.5, 6.25}},
	{model: "claude-opus-5", price: Price{5, 25, 0.5, 6.25}},
	{model: "claude-opus-5-5", price: Price{4, 20, 0.2, 5}},
	{model: "claude-sonnet-4-5", price: Price{3, 15, 0.3, 3.75}},
	{model: "claude-sonnet-4-6", price: Price{3, 15, 0.3, 3.75}},
	{model: "claude-sonnet-5", price: Price{2, 10, 0.2, 2.5}},
	{model: "claude-sonnet-5-5", price: Price{2, 10, 0.1, 2.5}},
	{model: "claude-haiku-4-5", price: Price{1, 5, 0.1, 1.25}},
	{model: "claude-haiku-5-5", price: Price{0.1, 0.5, 0.01, 0.125}, above: 100_000, long: Price{0.5, 2.5, 0.05, 0.625}},

	{model: "gpt-5", price: Price{Input: 1.25, Output: 10, CacheRead: 0.125}},
	{model: "gpt-5-mini", price: Price{Input: 0.25, Output: 2, CacheRead: 0.025}},
	{model: "gpt-5-codex", price: Price{Input: 1.25, Output: 10, CacheRead: 0.125}},
	{model: "gpt-5-1", price: Price{Input: 1.25, Output: 10, CacheRead: 0.125}},
	{model: "gpt-5-1-codex", price: Price{Input: 1.25, Output: 10, CacheRead: 0.125}},
	{model: "gpt-5-1-codex-max", price: Price{Input: 1.25, Output: 10, CacheRead: 0.125}},
	{model: "gpt-5-2", price: Price{Input: 1.75, Output: 14, CacheRead: 0.175}},
	{model: "gpt-5-2-codex", price: Price{Input: 1.75, Output: 14, CacheRead: 0.175}},
	{model: "gpt-5-3-codex", price: Price{Input: 1.75, Output: 14, CacheRead: 0.175}},
	{model: "gpt-5-4", price: Price{Input: 2.5, Output: 15, CacheRead: 0.25}, above: 272_000, long: Price{Input: 5, Output: 22.5, CacheRead: 0.5}},
	{model: "gpt-5-4-mini", price: Price{Input: 0.75, Output: 4.5, CacheRead: 0.075}},
	{model: "gpt-5-5", price: Price{Input: 5, Output: 30, CacheRead: 0.5}, above: 272_000, long: Price{Input: 10, Output: 45, CacheRead: 1}},
	{model: "gpt-5-6-luna", price: Price{0.2, 1.2, 0.02, 0.25}, above: 272_000, long: Price{0.4, 1.8, 0.04, 0.5}},
	{model: "gpt-5-6-terra", price: Price{2, 12, 0.2, 2.5}, above: 272_000, long: Price{4, 18, 0.4, 5}},
	{model: "gpt-5-6-sol", price: Price{4, 20, 0.4, 5}, above: 272_000, long: Price{8, 30, 0.8, 10}},
	{model: "gpt-6-luna", price: Price{0.1, 0.5, 0.01, 0.125}, above: 272_000, long: Price{0.2, 0.75, 0.02, 0.25}},
	{model: "gpt-6-sol", price: Price{2, 10, 0.2, 2.5}, above: 272_000, long: Price{4, 15, 0.4, 5}},
	{model: "gpt-6-1-terra", price: Price{1, 5, 0.05, 1.25}, above: 272_000, long: Price{2, 7.5, 0.1, 2.5}},
	{model: "gpt-6-1-sol", price: Price{2, 10, 0.1, 2.5}, above: 272_000, long: Price{4, 15, 0.2, 5}},
	{model: "gpt-6-2-sol", price: Price{2, 10, 0.1, 2.5}, above: 272_000, long: Price{4, 15, 0.2, 5}},
	{model: "gpt-6-2-astra", price: Price{8, 40, 0.4, 10}, above: 272_000, long: Price{16, 60, 0.8, 20}},
}

// sane keeps a sum of money finite whatever is added to it.
func sane(usd float64) float64 {
	if math.IsNaN(usd) || usd < 0 {
		return 0
	}
	return min(usd, 1e12)
}
