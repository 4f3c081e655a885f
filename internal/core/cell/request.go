package cell

// Request is one question to Place.
type Request struct {
	Space    int32 // the VC
	Priority Priority
	Members  []Member
	// Allowed restricts nodes when not nil, Avoided excludes nodes. Among equally good places those
	// on Preferred nodes come first.
	Allowed   NodeSet
	Avoided   NodeSet
	Preferred NodeSet
	// Excluded are leaves that the gang must not take.
	Excluded LeafSet
	// Reach says, by chain, how far apart the gang's leaves in it may be: some cell of at most that
	// level lies around them. Members that could use several chains then go to one. 0 is any
	// distance, and nil any in every chain.
	Reach []Level
	// Blocked excludes chains, by index, except for pinned members; nil is none.
	Blocked []bool
	// Preempt says which holders may be preempted; nil is none. Promised leaves are never taken.
	Preempt *Preemptible
	// Protected names holders that Preemptible must not preempt, since they come before this gang.
	// It may not have their leaves though they are leaving. nil is none.
	Protected func(AllocID) bool
	// Cost is what preempting a holder costs: the cheapest are preempted first. nil is no cost.
	Cost func(AllocID) Cost
	// Gone says which holders count as ended.
	Gone func(AllocID) bool
	// The next two are for explanations: what would fit if nothing were bad, and so no VC charged,
	// and if nothing were in use. Such placements cannot be taken.
	IgnoreHealth bool
	IgnoreUse    bool
	// boundFirst asks for the quick bound first. It is set where most answers are no.
	boundFirst bool
}

// Member is a number of identical tasks of a gang.
type Member struct {
	Tasks  int32
	Leaves int32      // of each task, on one node
	SKUs   []TypeName // sorted; none is any
	Pinned PinnedID   // in this pinned cell only; "" is outside of all pinned cells
	Alike  bool       // all members with these SKUs and this pin go to one SKU
}

// Preemptible says which holders may be preempted. One of unknown state never is, unless Also names
// it. One that is leaving anyway costs nothing, and is listed among the victims.
type Preemptible struct {
	Opportunistic bool     // those without a guarantee, of any VC
	Below         Priority // guaranteed ones of the same VC with a lower priority
	// Also names further holders, whatever their mood.
	Also func(AllocID) bool
}

// Cost is what preempting some holders costs. Costs compare field by field: of equally many
// victims those of a lower class go first, then those preempted less often, those that lose less
// work, and those that come later in the order.
type Cost struct {
	Class     int32 // the highest class among them; opportunistic work is 0
	Count     int32 // holders of that class
	Preempted int32
	Lost      int64 // GPU-microseconds since the last checkpoint
	Earliest  int64 // how early the first of them comes in the run order
	EarlySum  int64 // the same, added up: it decides where the first ones come equally early
}
