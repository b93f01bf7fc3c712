// SPDX-License-Identifier: Apache-2.0

package celdiff

import "fmt"

func (g *generator) domain() string {
	return g.pick("d.example", "d.example", "d.example", "other.example", "none.example")
}

func (g *generator) id() string { return g.pick("str", "num", "flag", "ver", "missing", "list") }

// leaf is an expression of the kind without parts of a random kind.
func (g *generator) leaf(kind string) string {
	switch kind {
	case tBool:
		return g.pick("true", "false", "device.allowMultipleAllocations", fmt.Sprintf(`device.attributes["%s"].flag`, g.domain()),
			fmt.Sprintf(`has(device.attributes["%s"].%s)`, g.domain(), g.id()), fmt.Sprintf(`"%s" in device.attributes["%s"]`, g.id(), g.domain()),
			fmt.Sprintf(`"mem" in device.capacity["%s"]`, g.domain()), fmt.Sprintf(`has(device.capacity["%s"].mem)`, g.domain()), "has(device.driver)",
			"has(device.attributes.nowhere)", `device.driver == "d.example"`)
	case tInt:
		return g.pick("0", "1", "2", "3", "-1", "7", "10", "-3", "0x1F", "100", "1000000", "9223372036854775807", "-9223372036854775808", "4294967296")
	case tUint:
		return g.pick("0u", "1u", "2u", "3u", "7u", "0xFFu", "18446744073709551615u", "9223372036854775808u")
	case tDouble:
		return g.pick("0.0", "1.0", "1.5", "-2.25", "1e3", "1e-7", "123456.0", "1234567.0", "1e300", "0.1", "9007199254740993.0", "1e21", "3.0", "1e19", "-0.0", "1.0/0.0", "0.0/0.0")
	case tString:
		return g.pick(`"a"`, `"b"`, `""`, `"abc"`, `"A100"`, `"Hello, World"`, `"1"`, `"-5"`, `"1.5"`, `"true"`, `"x y"`, `" trim me\t"`, `"aXbXc"`, `"grün€𝄞"`,
			`"1.2.3"`, `"v1.02"`, `"1.2.3-rc.1+build"`, `"1.0.0-alpha.10"`, `"10Gi"`, `"500m"`, `"1.5Gi"`, `"1e3"`, `"100"`, `"0.5"`, `"-1Ki"`, `"1h30m"`, `"1.5s"`, `"-2ms"`,
			`"2024-02-29T23:59:59.5Z"`, `"2023-01-01T00:00:00+05:30"`, `"10.0.0.1"`, `"127.0.0.1"`, `"::1"`, `"fe80::1"`, `"2001:DB8::1"`, `"::ffff:1.2.3.4"`, `"10.0.0.0/8"`,
			`"10.1.2.3/16"`, `"2001:db8::/32"`, `"https://user:pw@example.com:8080/a/b%20c?x=1&x=2&y=%41#frag"`, `"/relative/path"`, `"http://[::1]:80/"`, `"mailto:a@b"`, `"str"`,
			`"num"`, `"mem"`, `"d.example"`, `"[a-c]+"`, `"("`, `"^a"`, `"my-name"`, `"My_Label.1"`, `"example.com/name"`, `"123e4567-e89b-12d3-a456-426614174000"`, `"aGVsbG8="`,
			`"2024-02-29"`, `"dns1123Label"`, `"%s-%d"`, `"+01:00"`, `'single'`, `r"raw\n"`, `"\u00e9\x41\101"`, `"""triple "quoted" """`, "device.driver")
	case tBytes:
		return g.pick(`b"abc"`, `b""`, `b"\xff\x00"`, `b'é'`, `br"\d"`)
	case tQuantity:
		return g.pick(`quantity("1")`, `quantity("10Gi")`, `quantity("500m")`, `quantity("1.5")`, `quantity("1.5Gi")`, `quantity("-2k")`, `quantity("1000m")`, `quantity("1e3")`,
			`quantity("0")`, `quantity("9223372036854775807")`, `quantity("12345678901234567890")`, `quantity("1n")`, `quantity("1Ei")`, `quantity("1.0")`,
			fmt.Sprintf(`device.capacity["%s"].%s`, g.domain(), g.pick("mem", "cores", "odd", "missing")))
	case tSemver:
		return g.pick(`semver("1.2.3")`, `semver("1.2.3-rc.1")`, `semver("1.2.3-rc.10")`, `semver("2.0.0+build")`, `semver("v1.2", true)`, `semver("0.0.0")`, `semver("1.0.0-alpha.beta")`)
	case tDuration:
		return g.pick(`duration("1h")`, `duration("90s")`, `duration("1.5s")`, `duration("-3m")`, `duration("0s")`, `duration("1ns")`, `duration("2562047h")`, `duration("1h2m3.004s")`)
	case tTimestamp:
		return g.pick(`timestamp("2024-02-29T12:34:56Z")`, `timestamp("1970-01-01T00:00:00Z")`, `timestamp("2023-12-31T23:59:59.999999999+14:00")`,
			`timestamp("0001-01-01T00:00:00Z")`, `timestamp("9999-12-31T23:59:59Z")`, `timestamp(1700000000)`)
	case tInts:
		return g.pick("[1, 2, 3]", "[]", "[3, 1, 2, 1]", "[0]", "[1, 1]", "[-1, 5, 9223372036854775807]", "lists.range(4)")
	case tStrings:
		return g.pick(`["a", "b"]`, `["b", "a", "b"]`, `["A100"]`, `"a,b,c".split(",")`, `["", "abc"]`)
	case tMap:
		return g.pick(`{"a": 1, "b": 2}`, `{"a": 0}`, "{}", `{"x": 1, "a": 2, "b": 3}`)
	case tOptInt:
		return g.pick("optional.of(1)", "optional.none()", "optional.of(0)")
	case tOptString:
		return g.pick(`optional.of("a")`, "optional.none()", `optional.of("")`)
	case tIP:
		return g.pick(`ip("10.0.0.1")`, `ip("127.0.0.1")`, `ip("::1")`, `ip("fe80::1")`, `ip("2001:db8::5")`, `ip("0.0.0.0")`, `ip("224.0.0.5")`, `ip("ff02::1")`, `ip("255.255.255.255")`, `ip("169.254.1.1")`)
	case tCIDR:
		return g.pick(`cidr("10.0.0.0/8")`, `cidr("10.1.2.3/16")`, `cidr("2001:db8::/32")`, `cidr("0.0.0.0/0")`, `cidr("10.0.0.1/32")`, `cidr("::/0")`)
	case tURL:
		return g.pick(`url("https://example.com:8080/a?x=1")`, `url("http://[fe80::1]/")`, `url("/just/a/path%2F")`, `url("https://a.b/c d")`, `url("ftp://host")`)
	case tType:
		return g.pick("int", "string", "bool", "list", "map", "type", "null_type", "double", "uint", "bytes", "google.protobuf.Timestamp", "google.protobuf.Duration", "net.IP", "optional_type")
	default:
		return fmt.Sprintf(`device.attributes["%s"].%s`, g.domain(), g.id())
	}
}

// attribute and capacity are how cel_eval reads a device.
type attribute struct {
	Domain string `json:"domain"`
	ID     string `json:"id"`
	Type   string `json:"type"`
	Value  any    `json:"value"`
}

type capacity struct {
	Domain string `json:"domain"`
	ID     string `json:"id"`
	Value  string `json:"value"`
}

type device struct {
	Driver     string      `json:"driver"`
	Multi      bool        `json:"multi"`
	Attributes []attribute `json:"attributes"`
	Capacity   []capacity  `json:"capacity"`
}

func (g *generator) device() device {
	out := device{Driver: "d.example", Multi: g.chance(50), Attributes: []attribute{}, Capacity: []capacity{}}
	for _, domain := range []string{"d.example", "other.example"} {
		add := func(id, kind string, value any) {
			if g.chance(75) {
				out.Attributes = append(out.Attributes, attribute{domain, id, kind, value})
			}
		}
		add("str", "string", g.pick("A100", "a", "", "x y", "grün", "1.2.3"))
		add("num", "int", []int64{0, 1, 2, -7, 1 << 40}[g.r.Intn(5)])
		add("flag", "bool", g.chance(50))
		add("ver", "version", g.pick("1.2.3", "1.2.3-rc.1", "2.0.0", "0.1.0+x"))
		if g.lists {
			switch g.r.Intn(4) {
			case 0:
				add("list", "ints", []int64{1, 2, 3})
			case 1:
				add("list", "strings", []string{"a", "A100"})
			case 2:
				add("list", "bools", []bool{true, false})
			case 3:
				add("list", "versions", []string{"1.2.3", "2.0.0"})
			}
		}
		for _, id := range []string{"mem", "cores", "odd"} {
			if g.chance(75) {
				out.Capacity = append(out.Capacity, capacity{domain, id, g.pick("80Gi", "7", "1500m", "1.5Gi", "0", "10k", "1e3")})
			}
		}
	}
	return out
}
