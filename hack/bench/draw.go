package main

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The picture's measures, in its own units.
const (
	drawWidth  = 920
	drawLabels = 400 // of the column of names
	drawBars   = 400 // of the longest bar
	drawRow    = 20
)

// style keeps to a background of its own, so that the picture can be read on pages of either kind.
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}
.h{font-weight:600;font-size:14px}
.bg{fill:#fff}.plain{fill:#8c959f}.ours{fill:#0969da}.peer{fill:#bf8700}.line{stroke:#57606a;stroke-width:1}.most{stroke:#cf222e;stroke-width:2}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.bg{fill:#0d1117}.plain{fill:#6e7681}.ours{fill:#4493f8}.peer{fill:#d29922}.line{stroke:#9198a1}.most{stroke:#f85149}
}
</style>
`

// A bar is one row of the picture.
type bar struct {
	label, class, text string
	value              Interval
	most               float64 // target, 0 without
}

// draw writes a picture in SVG: how long starts take, and what agentjail adds to its delegate.
func (r *results) draw(w io.Writer) {
	starts, ratios := r.startBars(), r.ratioBars()
	height := 24 + drawRow*(len(starts)+len(ratios)) + 5*drawRow
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Starts and overheads">`+"\n",
		drawWidth, height, drawWidth, height)
	fmt.Fprint(w, style)
	fmt.Fprintf(w, `<rect class="bg" width="%d" height="%d"/>`+"\n", drawWidth, height)
	y := drawSection(w, 24, "Create, start, run /bin/true and delete, in milliseconds", starts, 0)
	y = drawSection(w, y+drawRow, "With agentjail, as a ratio to the same without", ratios, 1)
	fmt.Fprintf(w, `<text x="10" y="%d">Medians with 95 %% intervals; red: the target. Linux %s, %d processors, %s.</text>`+"\n</svg>\n",
		y+drawRow/2, html.EscapeString(r.Host.Kernel), r.Host.CPUs, r.Date.Format("2006-01-02"))
}

// drawSection writes a title and bars from y on, with a line at one value if that is not 0, and
// returns where it ends.
func drawSection(w io.Writer, y int, title string, bars []bar, line float64) int {
	fmt.Fprintf(w, `<text class="h" x="10" y="%d">%s</text>`+"\n", y, html.EscapeString(title))
	longest := line
	for _, b := range bars {
		longest = max(longest, b.value.High, b.most)
	}
	at := func(v float64) float64 { return drawLabels + v/longest*drawBars }
	top := y + drawRow/2
	for _, b := range bars {
		y += drawRow
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="end">%s</text>`, drawLabels-8, y+4, html.EscapeString(b.label))
		fmt.Fprintf(w, `<rect class="%s" x="%d" y="%d" width="%.1f" height="12" rx="2"/>`, b.class, drawLabels, y-6, at(b.value.Value)-drawLabels)
		if b.value.High > b.value.Low {
			fmt.Fprintf(w, `<line class="line" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, at(b.value.Low), at(b.value.High), y, y)
		}
		if b.most > 0 {
			fmt.Fprintf(w, `<line class="most" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, at(b.most), at(b.most), y-8, y+8)
		}
		fmt.Fprintf(w, `<text x="%.1f" y="%d">%s</text>`+"\n", at(max(b.value.High, b.most))+8, y+4, html.EscapeString(b.text))
	}
	if line > 0 {
		fmt.Fprintf(w, `<line class="line" x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke-dasharray="3 3"/>`+"\n", at(line), at(line), top, y+drawRow/2)
	}
	return y + drawRow
}

// startBars are whole lives: of each delegate with Docker's bundle, with agentjail over it, and of
// peers.
func (r *results) startBars() []bar {
	var out []bar
	for _, m := range r.Subjects {
		if m.Measure != "cycle" {
			continue
		}
		b := bar{value: m.Median, text: fmt.Sprintf("%.0f", m.Median.Value)}
		switch m.Kind {
		case bareDocker:
			b.label, b.class = m.Delegate+", Docker's default profile", "plain"
		case jailedDocker:
			b.label, b.class = "agentjail over "+m.Delegate, "ours"
		case alone:
			b.label, b.class = m.Delegate, "peer"
		default:
			continue
		}
		out = append(out, b)
	}
	return out
}

// ratioBars are the targets that are ratios to the delegate of the same name.
func (r *results) ratioBars() []bar {
	var out []bar
	for _, l := range r.lines() {
		if l.of != ofRatio || !strings.Contains(string(l.worst.Kind), "agentjail") || l.worst.Kind == bareOurs {
			continue
		}
		out = append(out, bar{label: l.what + ": " + l.delegate, class: "ours", text: fmt.Sprintf("%.2f", l.value.Value), value: l.value, most: l.most})
	}
	return out
}
