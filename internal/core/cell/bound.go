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
