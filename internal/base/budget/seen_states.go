package budget

import "encoding/binary"

// SeenStates is the set of states that a search was in: coming back to one it would find nothing
// new.
type SeenStates map[string]struct{}

// Add adds a state and reports whether it is new.
func (m *SeenStates) Add(state []int32) bool {
	key := make([]byte, 0, 4*len(state))
	for _, n := range state {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	if _, seen := (*m)[string(key)]; seen {
		return false
	}
	if *m == nil {
		*m = SeenStates{}
	}
	(*m)[string(key)] = struct{}{}
	return true
}
