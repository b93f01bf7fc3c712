// SPDX-License-Identifier: Apache-2.0

package celdiff

import (
	"fmt"
	"math/rand"
	"strings"
)

// generator writes random expressions. It knows what type it writes, so that most pass the checker;
// now and then it writes another one, or hides the type behind dyn().
type generator struct {
	r     *rand.Rand
	lists bool
	vars  []variable
	next  int
	// The expression loops over a map: Go does that in random order, so costs can't be compared.
	unordered bool
}

type variable struct{ name, kind string }

const (
	tBool      = "bool"
	tInt       = "int"
	tUint      = "uint"
	tDouble    = "double"
	tString    = "string"
	tBytes     = "bytes"
	tQuantity  = "quantity"
	tSemver    = "semver"
	tDuration  = "duration"
	tTimestamp = "timestamp"
	tInts      = "ints"
	tStrings   = "strings"
	tMap       = "map" // string -> int
	tOptInt    = "optint"
	tOptString = "optstring"
	tIP        = "ip"
	tCIDR      = "cidr"
	tURL       = "url"
	tAny       = "any"
	tType      = "type"
)

var kinds = []string{
	tBool, tInt, tUint, tDouble, tString, tBytes, tQuantity, tSemver, tDuration, tTimestamp, tInts, tStrings,
	tMap, tOptInt, tOptString, tIP, tCIDR, tURL, tAny, tType,
}

func (g *generator) pick(options ...string) string { return options[g.r.Intn(len(options))] }

func (g *generator) chance(percent int) bool { return g.r.Intn(100) < percent }

// fill replaces each $x by an expression of the kind that the letter stands for.
func (g *generator) fill(depth int, template string) string {
	var out strings.Builder
	for i := 0; i < len(template); i++ {
		if template[i] != '$' {
			out.WriteByte(template[i])
			continue
		}
		i++
		kind := map[byte]string{
			'b': tBool, 'i': tInt, 'u': tUint, 'd': tDouble, 's': tString, 'y': tBytes, 'q': tQuantity, 'v': tSemver,
			'D': tDuration, 'T': tTimestamp, 'I': tInts, 'S': tStrings, 'm': tMap, 'o': tOptInt, 'O': tOptString,
			'p': tIP, 'c': tCIDR, 'U': tURL, 'a': tAny, 't': tType,
		}[template[i]]
		if kind == "" { // $$
			out.WriteByte(template[i])
			continue
		}
		out.WriteString(g.expr(kind, depth-1))
	}
	return out.String()
}

// with binds a fresh variable of the kind while body is written.
func (g *generator) with(kind string, body func(name string) string) string {
	g.next++
	name := fmt.Sprintf("v%d", g.next)
	g.vars = append(g.vars, variable{name, kind})
	out := body(name)
	g.vars = g.vars[:len(g.vars)-1]
	return out
}

func (g *generator) Expression() string {
	g.vars, g.next, g.unordered = nil, 0, false
	if g.chance(3) {
		return g.garble(g.expr(tBool, 3))
	}
	if g.chance(4) {
		return g.expr(tAny, 3)
	}
	return g.expr(tBool, 2+g.r.Intn(4))
}

// garble damages the text.
func (g *generator) garble(text string) string {
	at := g.r.Intn(len(text))
	switch g.r.Intn(3) {
	case 0:
		return text[:at]
	case 1:
		return text[:at] + text[at+1:]
	default:
		return text[:at] + g.pick("(", ")", "[", "]", ".", ",", "!", "-", "\"", "'", "?", ":", "&&", "in", " ", "\\", "u", "0x", "1") + text[at:]
	}
}

func (g *generator) expr(kind string, depth int) string {
	if g.chance(2) {
		kind = g.pick(kinds...)
	}
	if g.chance(15) {
		var fit []string
		for _, v := range g.vars {
			if v.kind == kind {
				fit = append(fit, v.name)
			}
		}
		if len(fit) > 0 {
			return g.pick(fit...)
		}
	}
	text := g.plain(kind, depth)
	if g.chance(4) {
		return "dyn(" + text + ")"
	}
	return text
}

func (g *generator) plain(kind string, depth int) string {
	if depth <= 0 {
		return g.leaf(kind)
	}
	if g.chance(8) {
		return g.fill(depth, "($b ? "+letter(kind)+" : "+letter(kind)+")")
	}
	if g.chance(5) {
		inner := g.pick(kinds...)
		value := g.expr(inner, depth-1)
		return g.with(inner, func(name string) string {
			return "cel.bind(" + name + ", " + value + ", " + g.expr(kind, depth-1) + ")"
		})
	}
	if templates := templatesOf[kind]; len(templates) > 0 && g.chance(85) {
		return g.fill(depth, g.pick(templates...))
	}
	switch kind {
	case tBool:
		return g.loop(depth)
	case tInts:
		return g.with(tInt, func(name string) string {
			return g.fill(depth, g.pick("$I.map("+name+", $i)", "$I.filter("+name+", $b)", "$I.map("+name+", $b, $i)",
				"$I.transformList(i, "+name+", $i)", "$I.sortBy("+name+", $i)", "$I.sortBy("+name+", $s)"))
		})
	case tStrings:
		return g.with(tString, func(name string) string {
			return g.fill(depth, g.pick("$S.map("+name+", $s)", "$S.filter("+name+", $b)", "$S.sortBy("+name+", $i)",
				"$m.map("+name+", "+name+").sort()", "$m.filter("+name+", "+name+" > 'a').sort()"))
		})
	case tMap:
		g.unordered = true
		return g.with(tInt, func(name string) string {
			return g.fill(depth, g.pick("$m.transformMap(k, "+name+", $i)", "$m.transformMap(k, "+name+", $b, $i)",
				"$I.transformMapEntry(i, "+name+", {string(i): $i})"))
		})
	case tOptInt:
		return g.with(tInt, func(name string) string {
			return g.fill(depth, g.pick("$o.optMap("+name+", $i)", "$o.optFlatMap("+name+", $o)"))
		})
	default:
		return g.leaf(kind)
	}
}

func (g *generator) loop(depth int) string {
	macro := g.pick("all", "exists", "exists_one")
	if g.chance(25) {
		g.unordered = true
		return g.with(tString, func(name string) string {
			return g.fill(depth, g.pick("$m", "$S", "device.attributes", `device.attributes["`+g.domain()+`"]`)+"."+macro+"("+name+", $b)")
		})
	}
	if g.chance(30) {
		g.unordered = true
		return g.with(tInt, func(name string) string {
			return g.fill(depth, g.pick("$m", "$I")+"."+g.pick(macro, macro, "existsOne")+"(k, "+name+", $b)")
		})
	}
	return g.with(tInt, func(name string) string {
		return g.fill(depth, "$I."+macro+"("+name+", $b)")
	})
}

func letter(kind string) string {
	return map[string]string{
		tBool: "$b", tInt: "$i", tUint: "$u", tDouble: "$d", tString: "$s", tBytes: "$y", tQuantity: "$q", tSemver: "$v",
		tDuration: "$D", tTimestamp: "$T", tInts: "$I", tStrings: "$S", tMap: "$m", tOptInt: "$o", tOptString: "$O",
		tIP: "$p", tCIDR: "$c", tURL: "$U", tAny: "$a", tType: "$t",
	}[kind]
}
