package meter

// money is what a run costs, in USD.
type money struct {
	told      float64 // of requests, as the agent told it
	estimate  float64 // of requests, by a price
	ofProcess float64 // the sum of the process as the agent told it
	unpriced  string  // a model whose requests are in neither

	// told and estimate when ofProcess was told: the sum contains them.
	toldThen, estimateThen float64
}

func (m *money) add(told, estimate float64) {
	m.told, m.estimate = sane(m.told+told), sane(m.estimate+estimate)
}

// process takes the agent's own sum. One that has not grown tells nothing: it is
// what a killed or interrupted turn says.
func (m *money) process(usd float64) {
	if usd <= m.ofProcess {
		return
	}
	m.ofProcess = usd
	m.toldThen, m.estimateThen = m.told, m.estimate
	m.unpriced = ""
}

// total is the agent's own figure where there is one, and an estimate of what
// came after it or instead of it. rest is an estimate of what no request told;
// the sum of the process contains it.
func (m *money) total(rest float64) (usd float64, source string) {
	told, estimate := m.told, m.estimate+rest
	if m.ofProcess > 0 {
		told = m.ofProcess + max(m.told-m.toldThen, 0)
		estimate = max(m.estimate-m.estimateThen, 0)
		if estimate < 1e-9 { // what is left of adding and taking away
			estimate = 0
		}
	}
	switch {
	case estimate > 0:
		source = FromTable
	case told > 0:
		source = FromAgent
	default:
		source = FromNowhere
	}
	return sane(told + estimate), source
}
