// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// growths are the panels of the plot: a benchmark, the size that grows and those that stay, and how the value should
// grow with it.
var growths = []struct {
	name, title, size, fixed string
	value                    func(result engineResult, n float64) float64
	should                   string
	of                       func(n float64) float64
}{
	{"BM_Admissions", "one of n that wait is admitted, µs", "pending", "queues:10", func(r engineResult, n float64) float64 { return r.Micros / n }, "log n", math.Log2},
	{"BM_Arrival", "one more arrives behind n, µs", "pending", "queues:10", micros, "log n", math.Log2},
	{"BM_End", "one ends, the next of n is admitted, µs", "pending", "queues:10", micros, "log n", math.Log2},
	{"BM_Preemption", "victims among n candidates, µs", "candidates", "", micros, "n", identity},
	{"BM_FairSharingPass", "the least share among n queues, µs", "queues", "", micros, "n", identity},
	{"BM_MemoryPerPending", "bytes for each of n that wait", "pending", "", func(r engineResult, _ float64) float64 { return r.Bytes }, "1", func(float64) float64 { return 1 }},
}

func micros(r engineResult, _ float64) float64 { return r.Micros }
func identity(n float64) float64               { return n }

// points of one panel, by size.
func points(run engineRun, name, size, fixed string, value func(engineResult, float64) float64) plotter.XYs {
	var out plotter.XYs
	for _, result := range run.Results {
		parts := strings.Split(result.Name, "/")
		if parts[0] != name || (fixed != "" && !strings.Contains(result.Name+"/", "/"+fixed+"/")) {
			continue
		}
		for _, part := range parts[1:] {
			if key, text, _ := strings.Cut(part, ":"); key == size {
				if n, err := strconv.ParseFloat(text, 64); err == nil {
					out = append(out, plotter.XY{X: n, Y: value(result, n)})
				}
			}
		}
	}
	return out
}

// growthPlot is an SVG of how the engine's costs grow: measured points, and the curve that is expected through the
// first of them.
func growthPlot(run engineRun) ([]byte, error) {
	const columns = 3
	rows := (len(growths) + columns - 1) / columns
	canvas := vgsvg.New(vg.Length(columns)*240, vg.Length(rows)*200)
	area := draw.New(canvas)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Points(12), PadY: vg.Points(12), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(10)}
	for i, growth := range growths {
		measured := points(run, growth.name, growth.size, growth.fixed, growth.value)
		if len(measured) < 2 {
			return nil, fmt.Errorf("%s has %d sizes, a plot needs 2", growth.name, len(measured))
		}
		one := plot.New()
		one.Title.Text = growth.title
		one.Title.TextStyle.Font.Size = vg.Points(10)
		one.X.Label.Text = "n"
		one.X.Scale, one.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		one.Y.Min = 0
		var expected plotter.XYs
		first, last := measured[0], measured[len(measured)-1]
		for step := 0.0; step <= 1; step += 0.05 {
			n := first.X * math.Pow(last.X/first.X, step)
			expected = append(expected, plotter.XY{X: n, Y: first.Y * growth.of(n) / growth.of(first.X)})
		}
		curve, err := plotter.NewLine(expected)
		if err != nil {
			return nil, err
		}
		curve.Color, curve.Dashes = color.Gray{Y: 140}, []vg.Length{vg.Points(4), vg.Points(3)}
		line, dots, err := plotter.NewLinePoints(measured)
		if err != nil {
			return nil, err
		}
		line.Color = color.RGBA{R: 0x1f, G: 0x5f, B: 0xbf, A: 0xff}
		dots.Color, dots.Shape = line.Color, draw.CircleGlyph{}
		one.Add(curve, line, dots)
		one.Legend.Add("grows with "+growth.should, curve)
		one.Legend.Top, one.Legend.Left = true, true
		one.Legend.TextStyle.Font.Size = vg.Points(8)
		most := 0.0
		for _, xy := range append(expected, measured...) {
			most = math.Max(most, xy.Y)
		}
		one.Y.Max = 1.3 * most // room for the legend
		one.Draw(tiles.At(area, i%columns, i/columns))
	}
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return out.Bytes(), err
}
