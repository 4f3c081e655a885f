package trace

// workloadModel is the distributions from which a generator draws.
type workloadModel struct {
	name   string
	about  string
	perDay int64 // jobs a day where no load is asked for
	sizes  []sizeKind
	vcs    []int64 // weights
	users  int     // in all; each belongs to one VC
	// hours and days are how many jobs arrive in each hour of a day and day of a week, in
	// hundredths of the mean; nil is a constant rate.
	hours, days []int64
	models      []string
	outcomes    []outcomeWeight
	survey      bool // deadlines and estimates belong to it
}

// sizeKind describes the jobs of one size.
type sizeKind struct {
	weight int64
	gpus   int32
	milli  []int32 // thousandths of a GPU, of which one is drawn; none is whole GPUs
	last   lengths
}

type outcomeWeight struct {
	weight  int64
	outcome Outcome
}

// kinds are the generators. Each names its source; docs/traces.md has the table.
func kinds() []workloadModel {
	return []workloadModel{phillyKind(), heliosKind(), alibabaKind(), chronusKind(), poissonKind()}
}

// deciles makes a distribution from the values at 0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9
// and 100 percent, in seconds times unit.
func deciles(unit int64, values ...int64) lengths {
	parts := []int64{0, 10_000, 50_000, 100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 990_000, 999_000, 1_000_000}
	var list []quantile
	for i, v := range values {
		list = append(list, quantile{parts[i], v * unit})
	}
	return newLengths(0, list...)
}

// phillyKind is the Philly trace (Jeon et al., ATC'19) as published with the Pollux
// artifact, 82,247 jobs in 109 days: frequencies of sizes, weights of VCs, arrivals
// by hour and weekday, and quantiles of the run time by size were measured there;
// outcomes are the paper's (passed 69.3 %, killed 13.5 %, unsuccessful 17.2 %).
// The trace has no users: 20 for each VC with 1/k weights are ours.
func phillyKind() workloadModel {
	one := deciles(1, 1, 30, 52, 62, 122, 1117, 2716, 8512, 19137, 135404, 863786, 3256045)
	two := deciles(1, 2, 5, 9, 11, 16, 21, 76, 72361, 197004, 526030, 1463703, 2582803)
	four := deciles(1, 3, 36, 75, 138, 772, 17388, 89422, 184426, 274339, 906798, 2416865, 2750674)
	eight := deciles(1, 1, 33, 125, 216, 1871, 23683, 173288, 352409, 525631, 1066894, 2655194, 4628226)
	more := deciles(1, 1, 4, 35, 73, 566, 21137, 104218, 246825, 446126, 891298, 1710643, 1710643)
	return workloadModel{name: "philly", about: "Philly (ATC'19): sizes, run times by size, VCs, hours and weekdays as measured", perDay: 755,
		sizes: []sizeKind{{76627, 1, nil, one}, {1818, 2, nil, two}, {1870, 4, nil, four}, {1643, 8, nil, eight}, {7, 12, nil, more},
			{199, 16, nil, more}, {7, 24, nil, more}, {67, 32, nil, more}, {6, 64, nil, more}, {3, 128, nil, more}},
		vcs: []int64{5012, 1956, 1210, 903, 235, 184, 174, 138, 88, 51, 45, 1, 1, 1, 1}, users: 300,
		hours: []int64{127, 98, 112, 110, 70, 115, 167, 209, 111, 101, 102, 87, 75, 70, 64, 65, 88, 67, 80, 73, 102, 92, 113, 101},
		days:  []int64{86, 107, 114, 129, 144, 61, 59}, outcomes: []outcomeWeight{{693, Passed}, {135, Killed}, {172, Failed}}}
}

// heliosKind is one cluster of Helios (Hu et al., SC'21). Published are the median
// run time of a GPU job (206 s), its mean (6,652 s), its maximum (50 days), 3.72
// GPUs on average with more than half of the jobs on one, and 1,580,464 GPU jobs
// of 4 clusters in 6 months. Run times are the log-normal distribution with that
// median and mean; the frequencies of sizes and the hours are ours, to that mean.
func heliosKind() workloadModel {
	run := logNormal(206, 2636, 50*86400)
	return workloadModel{name: "helios", about: "one cluster of Helios (SC'21): log-normal run times with the published median and mean", perDay: 2160,
		sizes: []sizeKind{{6190, 1, nil, run}, {1000, 2, nil, run}, {900, 4, nil, run}, {1400, 8, nil, run}, {300, 16, nil, run},
			{150, 32, nil, run}, {50, 64, nil, run}, {10, 128, nil, run}},
		vcs: oneOver(25), users: 250, hours: officeHours(), days: []int64{115, 115, 115, 115, 115, 65, 60}}
}

// oneOver returns n weights that fall as 1, 1/2, 1/3, ...
func oneOver(n int64) []int64 {
	var out []int64
	for i := range n {
		out = append(out, 10_000/(i+1))
	}
	return out
}

// officeHours has few jobs at night, and a dip at noon and in the evening, as all
// the papers report; its numbers are ours.
func officeHours() []int64 {
	return []int64{60, 50, 45, 40, 35, 35, 40, 55, 85, 130, 155, 150, 120, 135, 160, 160, 155, 145, 120, 110, 125, 120, 100, 70}
}

// alibabaKind is Alibaba PAI. Frequencies of sizes are those of the GPU tasks of
// the 2023 trace (Weng et al., ATC'23, table 1: a part of a GPU 37.8 %, one 48.0 %,
// two 0.2 %, four 0.2 %, eight 0.5 % of all tasks); run times are the log-normal
// distribution with the median of 23 minutes and the 90th percentile of 4.5 hours
// of the 2020 trace (Weng et al., NSDI'22), which also has about 1,300 users and
// 1.2 million tasks in two months. The parts of a GPU are some that are frequent in
// the 2023 trace; the trace has no VCs, users with 1/k weights and hours are ours.
func alibabaKind() workloadModel {
	run := logNormal(23*60, 1922, 60*86400)
	parts := []int32{110, 220, 320, 460, 470, 550, 810}
	return workloadModel{name: "alibaba", about: "Alibaba PAI (NSDI'22, ATC'23): parts of GPUs, log-normal run times, no VCs", perDay: 20_000,
		sizes: []sizeKind{{378, 1, parts, run}, {480, 1, nil, run}, {2, 2, nil, run}, {2, 4, nil, run}, {5, 8, nil, run}},
		users: 1300, hours: officeHours(), days: []int64{105, 105, 105, 105, 105, 90, 85}}
}

// chronusKind is Philly_MIX1 of the Chronus artifact, 30,756 jobs in 14 days: sizes,
// run times by size (at most 72 hours), 11 VCs and 5 models alike, no days or hours,
// as measured there. Deadlines come from the survey.
func chronusKind() workloadModel {
	one := deciles(60, 20, 20, 21, 23, 32, 57, 139, 331, 871, 2436, 3873, 4315)
	few := deciles(60, 20, 20, 24, 35, 169, 764, 1636, 2966, 3402, 3944, 4316, 4316)
	many := deciles(60, 20, 22, 30, 42, 147, 648, 2151, 3285, 3796, 4182, 4305, 4317)
	return workloadModel{name: "chronus", about: "Philly_MIX1 of the Chronus artifact as measured, with deadlines of the survey", perDay: 2197,
		sizes: []sizeKind{{28361, 1, nil, one}, {205, 2, nil, few}, {1173, 4, nil, few}, {876, 8, nil, many}, {2, 12, nil, many},
			{124, 16, nil, many}, {1, 20, nil, many}, {14, 32, nil, many}},
		vcs: []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, users: 110, survey: true,
		models: []string{"alexnet", "inception_v3", "mobilenet_v2", "resnet101", "vgg16"}}
}

// poissonKind is the synthetic trace of Gavel (Narayanan et al., OSDI'20): arrivals
// at random at one rate; 1, 2, 4, 8 GPUs for 70, 10, 15, 5 % of the jobs; run times
// of 10^x minutes, x uniform in [1.5, 3] for 80 % and in [3, 4] for the others. Four
// equal VCs are ours.
func poissonKind() workloadModel {
	run := newLengths(0, quantile{0, 1897}, quantile{800_000, 60_000}, quantile{1_000_000, 600_000})
	return workloadModel{name: "poisson", about: "Gavel's synthetic trace (OSDI'20): one rate, run times of 10^x minutes", perDay: 96,
		sizes: []sizeKind{{70, 1, nil, run}, {10, 2, nil, run}, {15, 4, nil, run}, {5, 8, nil, run}},
		vcs:   []int64{1, 1, 1, 1}, users: 40}
}
