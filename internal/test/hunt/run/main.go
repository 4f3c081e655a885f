// Command run looks for checks and decisions of many steps, and prints the ten heaviest, each
// with the smallest script that still causes it.
//
//	run [-for 10m] [-from 1] [-nodes 0] [-known]
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/combsched/comb/internal/test/hunt"
)

func main() {
	most := flag.Duration("for", 10*time.Minute, "how long to go on with random cases")
	from := flag.Uint64("from", 1, "the first seed")
	nodes := flag.Int("nodes", 0, "only cases of so many nodes; 0 is of all sizes")
	known := flag.Bool("known", false, "only the cases that were slow once, at 1,000 nodes or as many as -nodes says")
	flag.Parse()
	if err := search(*most, *from, *nodes, *known); err != nil {
		fmt.Fprintln(os.Stderr, "hunt:", err)
		os.Exit(1)
	}
}

func search(most time.Duration, from uint64, nodes int, known bool) error {
	var all []hunt.Finding
	try := func(c hunt.Case) error {
		found, err := hunt.Run(c)
		if err != nil {
			return err
		}
		all = append(all, found...)
		all = hunt.Worst(all, 10, false)
		return nil
	}
	if known {
		if nodes == 0 {
			nodes = 1000
		}
		for _, c := range append(hunt.Known(nodes), hunt.Mixed(nodes)...) {
			found, err := hunt.Run(c)
			if err != nil {
				return err
			}
			w, t := hunt.Worst(found, 1, false)[0], hunt.Worst(found, 1, true)[0]
			fmt.Printf("%-22s %12d steps  %s\n%-22s %12s CPU    %s\n", c.Name, w.Steps, w.Line(), "", t.CPU.Round(time.Microsecond), t.Line())
		}
		return nil
	}
	began, tried := time.Now(), 0
	for seed := from; time.Since(began) < most; seed++ {
		for _, n := range hunt.Sizes() {
			if nodes != 0 && n != nodes {
				continue
			}
			tried++
			if err := try(hunt.Random(seed, n)); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%d cases from seed %d; the heaviest:\n", tried, from)
	for _, f := range all {
		fmt.Println(hunt.Shrink(f, 40))
	}
	return nil
}
