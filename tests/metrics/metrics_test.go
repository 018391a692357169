// Package metrics reads what Divvy serves and ships with the parsers of those who will: Prometheus' of pages and of
// expressions, and Grafana's types of dashboards.
//
// The folder in DIVVY_PAGES has the pages that a daemon served while two tenants ran: open.txt in OpenMetrics' format,
// plain.txt in the older one. `cargo xtask test metrics` makes it.
package metrics

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

const repository = "../.."

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// documented are the names and labels of the table in docs/metrics.md, which a test of divvy's holds to the code.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `(divvy_[a-z_]+)` \\| (counter|gauge|info) \\| ([a-z_, ]*) \\|")
	names := map[string][]string{}
	for _, found := range row.FindAllStringSubmatch(string(read(t, repository, "docs/metrics.md")), -1) {
		names[found[1]] = strings.Split(found[3], ", ")
	}
	if len(names) < 40 {
		t.Fatalf("%d names in docs/metrics.md", len(names))
	}
	return names
}

// page is what a parser made of one.
type page struct {
	types  map[string]model.MetricType
	units  map[string]string
	help   map[string]string
	series map[string]float64
	labels []labels.Labels
}

func parse(t *testing.T, text []byte, contentType string) page {
	t.Helper()
	symbols := labels.NewSymbolTable()
	from, err := textparse.New(text, contentType, symbols, textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := page{map[string]model.MetricType{}, map[string]string{}, map[string]string{}, map[string]float64{}, nil}
	for {
		entry, err := from.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", contentType, err)
		}
		switch entry {
		case textparse.EntryType:
			name, kind := from.Type()
			found.types[string(name)] = kind
		case textparse.EntryUnit:
			name, unit := from.Unit()
			found.units[string(name)] = string(unit)
		case textparse.EntryHelp:
			name, help := from.Help()
			found.help[string(name)] = string(help)
		case textparse.EntrySeries:
			_, _, value := from.Series()
			var of labels.Labels
			from.Labels(&of)
			if _, twice := found.series[of.String()]; twice {
				t.Errorf("%s stands twice", of)
			}
			found.series[of.String()] = value
			found.labels = append(found.labels, of)
		}
	}
}

// TestPages holds both pages to Prometheus' parsers and conventions, and to each other.
func TestPages(t *testing.T) {
	folder := os.Getenv("DIVVY_PAGES")
	if folder == "" {
		t.Skip("DIVVY_PAGES names no folder of pages; cargo xtask test metrics makes one")
	}
	open := parse(t, read(t, folder, "open.txt"), "application/openmetrics-text; version=1.0.0; charset=utf-8")
	plain := parse(t, read(t, folder, "plain.txt"), "text/plain; version=0.0.4; charset=utf-8")
	known := documented(t)
	// Labels of DCGM's exporter and of Kubernetes' discovery, which mean something else there.
	taken := regexp.MustCompile("^(gpu|UUID|device|modelName|Hostname|DCGM_FI_.*|container|namespace|pod|job|instance)$")
	for _, of := range open.labels {
		name := of.Get(labels.MetricName)
		allowed, ok := known[name]
		if !ok {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
		of.Range(func(l labels.Label) {
			if l.Name == labels.MetricName {
				return
			}
			if taken.MatchString(l.Name) || !contains(allowed, l.Name) {
				t.Errorf("label %s of %s", l.Name, name)
			}
		})
	}
	for family, kind := range open.types {
		suffix := map[model.MetricType]string{model.MetricTypeCounter: "_total", model.MetricTypeInfo: "_info"}[kind]
		plainKind := kind
		if kind == model.MetricTypeInfo {
			plainKind = model.MetricTypeGauge
		}
		if plain.types[family+suffix] != plainKind {
			t.Errorf("%s is %s, and %q in the older format", family, kind, plain.types[family+suffix])
		}
		if open.help[family] == "" || open.help[family] != plain.help[family+suffix] {
			t.Errorf("help of %s: %q and %q", family, open.help[family], plain.help[family+suffix])
		}
		for _, unit := range []string{"bytes", "seconds", "ratio"} {
			if strings.HasSuffix(family, "_"+unit) != (open.units[family] == unit) {
				t.Errorf("unit of %s: %q", family, open.units[family])
			}
		}
	}
	// Both were asked for at about the same time: the same series, though not the same values.
	for of := range open.series {
		if _, ok := plain.series[of]; !ok {
			t.Errorf("%s is missing in the older format", of)
		}
	}
	tenants := map[string]bool{}
	for _, of := range open.labels {
		if of.Get(labels.MetricName) == "divvy_tenant_used_seconds_total" {
			tenants[of.Get("tenant")] = true
		}
	}
	if len(tenants) != 2 {
		t.Errorf("tenants: %v", tenants)
	}
}

func contains(all []string, one string) bool {
	for _, of := range all {
		if of == one {
			return true
		}
	}
	return false
}

// check parses an expression, and finds all its names and matchers' labels among those that are documented.
func check(t *testing.T, where, expression string, recorded map[string]bool) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	known := documented(t)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		allowed, ok := known[selector.Name]
		if !ok && selector.Name != "up" && !recorded[selector.Name] {
			t.Errorf("%s: %s is no metric", where, selector.Name)
		}
		for _, matcher := range selector.LabelMatchers {
			own := []string{labels.MetricName, "instance", "job"}
			if ok && !contains(append(own, allowed...), matcher.Name) {
				t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
			}
		}
		return nil
	})
}

// TestAlerts parses each rule's expression.
func TestAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(read(t, repository, "deploy/alerts.yml"), &file); err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	rules := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			check(t, rule.Record+rule.Alert, rule.Expr, recorded)
			recorded[rule.Record] = true
			rules++
		}
	}
	if rules < 10 {
		t.Fatalf("%d rules", rules)
	}
}

// TestDashboard reads the dashboard as Grafana's types, which know each field, and parses its queries.
func TestDashboard(t *testing.T) {
	text := read(t, repository, "deploy/grafana-dashboard.json")
	plugins.RegisterDefaultPlugins()
	var board dashboard.Dashboard
	// No error is an empty list of them there, which is not nil.
	var none cog.BuildErrors
	if err := board.UnmarshalJSONStrict(text); err != nil && (!errors.As(err, &none) || len(none) > 0) {
		t.Errorf("not as Grafana's schema: %v", err)
	}
	if err := board.Validate(); err != nil {
		t.Errorf("not valid for Grafana: %v", err)
	}
	var raw any
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	queries := 0
	var walk func(any, string)
	walk = func(node any, title string) {
		switch node := node.(type) {
		case map[string]any:
			if own, ok := node["title"].(string); ok {
				title = own
			}
			if expression, ok := node["expr"].(string); ok {
				filled := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$tenant", ".*", "$device", ".*")
				check(t, title, filled.Replace(expression), nil)
				queries++
			}
			for _, inner := range node {
				walk(inner, title)
			}
		case []any:
			for _, inner := range node {
				walk(inner, title)
			}
		}
	}
	walk(raw, "")
	if queries < 30 {
		t.Fatalf("%d queries", queries)
	}
}
