package api

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
)

// deviceClass is what is read of a DeviceClass.
type deviceClass struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Resource  string     `json:"extendedResourceName"`
		Selectors []Selector `json:"selectors"`
	} `json:"spec"`
}

// drivers are those whose devices a class can have. known is false where its selectors do not say:
// then it may have those of any driver.
func (d *deviceClass) drivers() (list []string, known bool) {
	for i := range d.Spec.Selectors { // a device satisfies all of them
		if of, ok := driversIn(d.Spec.Selectors[i].CEL.Expression); ok {
			return of, true
		}
	}
	return nil, false
}

// OpenClasses says by which device classes that the policies do not name others may get GPUs: those
// of the drivers of classes that they name, and of some SKUs. It says nothing where Comb may not
// list classes.
func (c *Client) OpenClasses(ctx context.Context, kept Kept, skus []cell.SKU) (list []string, err error) {
	checks, err := checker{c}.openClasses(ctx, kept, skus)
	for _, one := range checks {
		if !one.Optional {
			list = append(list, one.String()+": "+one.Next)
		}
	}
	return list, err
}

// openClasses are the device classes by which others may get GPUs, since no policy names them, or
// since no policy names the resource as which pods may ask for their devices.
func (c checker) openClasses(ctx context.Context, kept Kept, skus []cell.SKU) (list Checks, err error) {
	var all []deviceClass
	unseen, err := c.everywhere(ctx, groupPath+"/deviceclasses", whichGPUs, func(raw []byte) (metav1.ListMeta, error) {
		var page pageOf[deviceClass]
		err := json.Unmarshal(raw, &page)
		all = append(all, page.Items...)
		return page.Metadata, err
	})
	if err != nil {
		return nil, err
	}
	of := gpuDrivers(kept, skus, all)
	for i := range all {
		class := &all[i]
		check := Check{Kind: "DeviceClass", Name: class.Metadata.Name}
		resource := class.Spec.Resource
		named, known := class.drivers()
		gpus := slices.DeleteFunc(named, func(d string) bool { return !of[d] })
		switch {
		case slices.Contains(kept.classes, check.Name) && resource != "" && !kept.hasResource(resource):
			check.Problem = "pods of others may ask for its devices as " + resource
			check.Next = "name it in gpuResources of ValidatingAdmissionPolicy " + podPolicy
		case slices.Contains(kept.classes, check.Name):
			problem, next, open := strings.Cut(kept.LetsClass(check.Name), ": ")
			if check.Problem, check.Next = problem, next; !open {
				continue
			}
		case len(gpus) > 0:
			check.Problem = "others may claim devices of driver " + gpus[0] + " by it, which gives GPUs"
		case !known && len(of) > 0:
			check.Optional = true
			check.Problem = "its selectors name no driver, so others may be able to claim GPUs by it"
		default:
			continue
		}
		if check.Next == "" {
			check.Next = "name it in gpuDeviceClasses of ValidatingAdmissionPolicy " + claimPolicy +
				", and of " + podPolicy
		}
		list = append(list, check)
	}
	return append(list, unseen...), nil
}

// gpuDrivers are the drivers that give GPUs: those of the classes that the policies name, which
// most drivers have named after themselves, and those of some SKUs.
func gpuDrivers(kept Kept, skus []cell.SKU, all []deviceClass) map[string]bool {
	of := map[string]bool{}
	for i := range skus {
		if d := skus[i].DRA; d.Class != "" {
			of[d.Driver] = true
		}
	}
	if len(all) == 0 {
		return of
	}
	for _, name := range kept.classes {
		of[name] = true
	}
	for i := range all {
		if slices.Contains(kept.classes, all[i].Metadata.Name) {
			named, _ := all[i].drivers()
			for _, d := range named {
				of[d] = true
			}
		}
	}
	return of
}

// How an expression of CEL says of which driver a device is.
const celText = `(?:"[^"\\]*"|'[^'\\]*')`

var (
	driverIs   = regexp.MustCompile(`^device\.driver\s*==\s*(` + celText + `)$`)
	isDriver   = regexp.MustCompile(`^(` + celText + `)\s*==\s*device\.driver$`)
	driverIsIn = regexp.MustCompile(`^device\.driver\s+in\s+\[\s*(` + celText + `(?:\s*,\s*` + celText + `)*)\s*\]$`)
	celTexts   = regexp.MustCompile(celText)
)

// driversIn are the drivers of whose devices an expression of CEL can be true. ok is false where
// that is not seen: then it may be all.
func driversIn(expression string) (list []string, ok bool) {
	expression = unwrapped(expression)
	either, whole := splitOutside(expression, "||")
	if !whole {
		return nil, false
	}
	if len(either) > 1 {
		all := map[string]bool{}
		for _, part := range either {
			of, ok := driversIn(part)
			if !ok {
				return nil, false
			}
			for _, d := range of {
				all[d] = true
			}
		}
		return slices.Sorted(maps.Keys(all)), true
	}
	if both, _ := splitOutside(expression, "&&"); len(both) > 1 {
		for _, part := range both {
			if of, ok := driversIn(part); ok {
				return of, true
			}
		}
		return nil, false
	}
	for _, form := range []*regexp.Regexp{driverIs, isDriver, driverIsIn} {
		if m := form.FindStringSubmatch(expression); m != nil {
			for _, text := range celTexts.FindAllString(m[1], -1) {
				list = append(list, text[1:len(text)-1])
			}
			return list, true
		}
	}
	return nil, false
}

// unwrapped is an expression without the spaces and parentheses around all of it.
func unwrapped(text string) string {
	for {
		text = strings.TrimSpace(text)
		if !strings.HasPrefix(text, "(") || closing(text) != len(text)-1 {
			return text
		}
		text = text[1 : len(text)-1]
	}
}

// closing is where the parenthesis closes with which a text begins; -1 for nowhere.
func closing(text string) int {
	at := -1
	outside(text, func(i, depth int) bool {
		if text[i] == ')' && depth == 0 {
			at = i
		}
		return at < 0
	})
	return at
}

// splitOutside splits an expression at an operator that stands outside of all parentheses and
// texts. whole is false for what this does not read: conditionals and comments.
func splitOutside(text, operator string) (parts []string, whole bool) {
	from := 0
	whole = outside(text, func(i, depth int) bool {
		switch {
		case depth > 0 || i < from:
		case strings.HasPrefix(text[i:], operator):
			parts = append(parts, text[from:i])
			from = i + len(operator)
		case text[i] == '?' && (i == 0 || text[i-1] != '.'), strings.HasPrefix(text[i:], "//"):
			return false
		}
		return true
	})
	return append(parts, text[from:]), whole
}

// outside calls see for each byte of an expression that is in no text, with the number of
// parentheses around it, until see returns false. It reports whether it came to the end, and all
// texts have ended.
func outside(text string, see func(i, depth int) bool) bool {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quote != 0 && b == '\\':
			i++
			continue
		case quote != 0:
			if b == quote {
				quote = 0
			}
			continue
		case b == '"' || b == '\'':
			quote = b
			continue
		case strings.IndexByte("([{", b) >= 0:
			depth++
		case strings.IndexByte(")]}", b) >= 0:
			depth--
		}
		if !see(i, depth) {
			return false
		}
	}
	return quote == 0
}
