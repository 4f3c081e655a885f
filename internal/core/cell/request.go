package cell

// Request is one question to Place.
type Request struct {
	Space    int32 // the VC
	Priority Priority
	Members  []Member
	// Allowed restricts nodes when not nil; Avoided excludes nodes; among equally
	// good places those on Preferred nodes come first.
	Allowed   NodeSet
	Avoided   NodeSet
	Preferred NodeSet
	// Keep are leaves that this gang must not take.
	Keep LeafSet
	// Reach says, by chain, how far apart the leaves may be that the gang gets of it:
	// there is a cell of at most that level around them, and members that could
	// use several chains go to one; 0 is any distance, and nil that of every chain.
	Reach []Level
	// Blocked excludes chains by index, except for pinned members; nil is none.
	Blocked []bool
	// Lift says which holders may be made to leave; nil is none. Leaves that
	// were promised to somebody are never taken.
	Lift *Lift
	// Spared names holders of which Lift may not make any leave, and whose leaves this gang may not
	// have though they leave: they stand before it. nil is none.
	Spared func(AllocID) bool
	// Cost orders holders that may be lifted: the least is lifted first. nil is zero.
	Cost func(AllocID) Cost
	// Gone says which holders to leave out of the picture, as if they had ended.
	Gone func(AllocID) bool
	// The next two are for explanations: what would fit if nothing were bad, and so
	// nothing charged, and if nothing were in use. Their placements cannot be taken.
	IgnoreHealth bool
	IgnoreUse    bool
	// wary asks for the quick bound first, where most answers are no.
	wary bool
}

// Member is a number of identical tasks of a gang.
type Member struct {
	Tasks  int32
	Leaves int32      // per task, on one node
	SKUs   []TypeName // sorted; none is any
	Pinned PinnedID   // only inside that pinned cell; "" is outside of all
	Alike  bool       // all that have the same SKUs and pin go to one of the SKUs
}

// Lift says which holders may be made to leave. One that is stuck is never
// counted on, one that leaves anyway costs nothing and is listed as a victim.
type Lift struct {
	Opportunistic bool     // those that use no guarantee, of any VC
	Below         Priority // guaranteed ones of the same VC with a lower priority
	// Also names further holders, whatever their mood.
	Also func(AllocID) bool
}

// Cost is what lifting some holders costs: of as many those of a higher class are spared, then
// those that were preempted more often, then those that lose more work, then those that come
// earlier in the order.
type Cost struct {
	Class     int32 // the highest of them: opportunistic work is 0
	Of        int32 // how many are of that
	Preempted int32
	Lost      int64 // GPU-microseconds since the last checkpoint
	Early     int64 // how early the first of them comes in the order
	Earlier   int64 // the same of all of them, added up: where the first is one, the others count
}
