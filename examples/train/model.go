package main

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// The network: inputs -> hidden tanh units -> one output.
const (
	inputs    = 8
	hidden    = 16
	modelSize = hidden*(inputs+1) + hidden + 1
	batchSize = 48
	rate      = 0.05
	evalSize  = 512
	// evalStart is where the samples begin that are never trained on.
	evalStart = uint64(1) << 40
)

// model is the weights: for each hidden unit its inputs' weights and its bias,
// then the output's weights and its bias.
type model struct{ w [modelSize]float64 }

func newModel(seed uint64) *model {
	m := &model{}
	for i := range m.w {
		m.w[i] = 0.5 * uniform(seed, 0, uint64(i))
	}
	return m
}

// uniform is a number in [-1, 1) that depends on nothing but its arguments, so
// that every task makes the same data without sending it.
func uniform(seed, sample, i uint64) float64 {
	x := seed*0x9e3779b97f4a7c15 + sample*0xbf58476d1ce4e5b9 + (i+1)*0x94d049bb133111eb
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11)/float64(1<<52) - 1
}

// sample gives the inputs and the wanted output of a sample.
func sample(seed, n uint64) (x [inputs]float64, y float64) {
	for i := range x {
		x[i] = uniform(seed, n+1, uint64(i))
	}
	y = math.Sin(2*x[0]) + x[1]*x[2] - 0.5*x[3]
	return x, y + 0.01*uniform(seed, n+1, inputs)
}

// share is the part of a batch that a task computes, [from, to).
func share(rank, tasks int) (from, to uint64) {
	return uint64(rank * batchSize / tasks), uint64((rank + 1) * batchSize / tasks)
}

func (m *model) forward(x *[inputs]float64) (h [hidden]float64, y float64) {
	out := m.w[hidden*(inputs+1):]
	y = out[hidden]
	for j := range h {
		unit := m.w[j*(inputs+1) : (j+1)*(inputs+1)]
		a := unit[inputs]
		for i, v := range x {
			a += unit[i] * v
		}
		h[j] = math.Tanh(a)
		y += out[j] * h[j]
	}
	return h, y
}

// gradient adds the gradient of the squared error over the samples [from, to) to
// g and returns the sum of their errors.
func (m *model) gradient(seed, from, to uint64, g []float64) (loss float64) {
	out := m.w[hidden*(inputs+1):]
	gout := g[hidden*(inputs+1):]
	for n := from; n < to; n++ {
		x, want := sample(seed, n)
		h, y := m.forward(&x)
		d := y - want
		loss += d * d
		gout[hidden] += 2 * d
		for j := range h {
			gout[j] += 2 * d * h[j]
			dh := 2 * d * out[j] * (1 - h[j]*h[j])
			unit := g[j*(inputs+1) : (j+1)*(inputs+1)]
			unit[inputs] += dh
			for i, v := range x {
				unit[i] += dh * v
			}
		}
	}
	return loss
}

// move takes one step down the summed gradient of a whole batch.
func (m *model) move(g []float64) {
	for i := range m.w {
		m.w[i] -= rate / batchSize * g[i]
	}
}

// evaluate is the mean squared error over samples that training never saw.
func (m *model) evaluate(seed uint64) float64 {
	loss := 0.0
	for n := evalStart; n < evalStart+evalSize; n++ {
		x, want := sample(seed, n)
		_, y := m.forward(&x)
		loss += (y - want) * (y - want)
	}
	return loss / evalSize
}

// sum is a checksum of the weights: equal only for equal bits.
func (m *model) sum() uint32 { return crc32.ChecksumIEEE(m.bytes()) }

func (m *model) bytes() []byte {
	b := make([]byte, 0, 8*modelSize)
	for _, w := range m.w {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(w))
	}
	return b
}

// setBytes takes what bytes gave; b has exactly that length.
func (m *model) setBytes(b []byte) {
	for i := range m.w {
		m.w[i] = math.Float64frombits(binary.BigEndian.Uint64(b[8*i:]))
	}
}
