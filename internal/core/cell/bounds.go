package cell

import (
	"fmt"
	"strings"
)

// Bounds are the bounds that a search reached: it did not try everything.
type Bounds uint16

// One bit for each bound.
const (
	boundBinds Bounds = 1 << iota
	boundAllBinds
	boundPacks
	boundDivisions
	boundAsks
	boundBins
	boundVictimBins
	boundSets
	boundExact
	boundTrim
	boundSteps
)

// OutOfSteps is the bound of all searches for one gang together.
const OutOfSteps = boundSteps

// boundWords says what each bound is, in the order of the bits.
var boundWords = [...]string{
	fmt.Sprintf("%d ways to bind cells", bindSteps),
	fmt.Sprintf("%d ways to bind cells for all kinds of members together", placeSteps),
	fmt.Sprintf("%d ways to pack tasks", packSteps),
	fmt.Sprintf("%d ways to divide members among chains", divideSteps),
	fmt.Sprintf("%d sets of members in one chain", askSteps),
	fmt.Sprintf("%d nodes", maxBins),
	fmt.Sprintf("%d nodes, and two for each task, in which victims are looked for", maxOptions),
	fmt.Sprintf("%d ways to bind cells for sets of victims", setSteps),
	fmt.Sprintf("the sets of victims among %d gangs", maxExact),
	fmt.Sprintf("%d searches for victims that may stay", maxTrim),
	fmt.Sprintf("%d steps for one gang, and %d for each node", gangSteps, nodeSteps),
}

// String lists the bounds that were reached: "512 ways to bind cells or 20000
// ways to pack tasks"; empty for none.
func (b Bounds) String() string {
	var words []string
	for i, w := range boundWords {
		if b>>i&1 != 0 {
			words = append(words, w)
		}
	}
	return strings.Join(words, " or ")
}

// AllBounds returns what every search is bounded by, for the documentation.
func AllBounds() []string { return boundWords[:] }

// bindSteps bounds the search that tries every way to bind cells.
const bindSteps = 512

// packSteps bounds the exact packing that is tried when the greedy one fails.
const packSteps = 20_000

// maxBins bounds how many bins one packing looks at.
const maxBins = 8192

// maxOptions bounds in how many bins victims are looked for, besides two for each task: in those
// with most free leaves.
const maxOptions = 24

// setSteps bounds the ways to bind cells that are tried for all sets of victims together.
const setSteps = 8 * bindSteps

// placeSteps bounds the ways to bind cells for all parts of a request together.
const placeSteps = 4 * bindSteps

const (
	// divideSteps bounds how many ways to divide members among chains are tried, and
	// askSteps how many sets of members are asked for in a chain.
	divideSteps = 4096
	askSteps    = 256
)

const (
	// With up to maxExact holders to preempt, every set of victims is tried.
	maxExact = 12
	// maxTrim bounds how often a search finds that a victim is needed after all that by numbers
	// alone could stay; the dearest are tried first.
	maxTrim = 64
)

// The searches for one gang may take gangSteps in a decision, and nodeSteps for each node. Of
// what is left, each search for ways to bind cells may take a quarter, so that those after it
// have some. So may demoting one holder after the other. A further quarter is kept for finding
// which victims may stay, and the lowest priority that suffices.
const (
	gangSteps = 60_000
	nodeSteps = 10
)
