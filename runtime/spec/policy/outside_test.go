package policy

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestNetworkPublish: a container publishes what policy lets it, and no policy sets of itself that all jails publish something but
// what their engine does.
func TestNetworkPublish(t *testing.T) {
	for _, bad := range []string{`publish = ["8000:80"]`, `publish = ["0"]`, `published = ["8000:80"]`, `servers = ["ns.example.org"]`, `servers = ["1.1.1.1:0"]`, `servers = ["a", "b", "c", "d"]`} {
		if _, err := Parse([]byte("[network]\nmode = \"names\"\n"+bad), "x", ""); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	p, err := Parse([]byte("[network]\nmode = \"names\"\npublish = [\"8000-8999\", \"0.0.0.0:443\"]\nservers = [\"192.0.2.53\"]"), "x", "")
	if err != nil {
		t.Fatal(err)
	}
	for ask, want := range map[string][]string{
		"8000:80":                      {"127.0.0.1:8000:80"},
		"8000:80, 192.0.2.1:443:8443,": {"127.0.0.1:8000:80", "192.0.2.1:443:8443"},
		"0.0.0.0:8000:80":              nil,
		"8000:80,9000:80":              nil,
		"8000:80,8000:81":              nil,
		"80":                           nil,
	} {
		got, ignored := p.Tighten(map[string]string{AnnotationPrefix + "network.publish": ask})
		if !slices.Equal(got.Network.Published, want) || (len(ignored) == 0) != (want != nil) {
			t.Errorf("%q: %v, %+v", ask, got.Network.Published, ignored)
		}
	}
	r, err := p.Network.Helped()
	if err != nil || !slices.Equal(r.Servers, []string{"192.0.2.53:53"}) || r.Publish != nil {
		t.Errorf("%+v, %v", r, err)
	}
	d := Default()
	if _, ignored := d.Tighten(map[string]string{AnnotationPrefix + "network.publish": "8000:80"}); len(ignored) != 1 {
		t.Errorf("in mode none: %v", ignored)
	}
	if err := d.Network.PublishPorts([]string{"80:8000"}); err != nil || d.Network.Mode != NetworkNames || len(d.Network.Allow) != 0 {
		t.Errorf("the owner's word: %+v, %v", d.Network, err)
	}
}

// TestNetworkPublishEngine: the engine's ports are published as policy has them, unless a container states less.
func TestNetworkPublishEngine(t *testing.T) {
	p, err := Parse([]byte("[network]\nmode = \"names\"\npublish = [\"8000-8999\", \"engine:3000-3999\"]"), "x", "")
	if err != nil {
		t.Fatal(err)
	}
	of := []string{"engine:3000-3999"}
	for ask, c := range map[string]struct {
		want    []string
		refused bool
	}{
		"none":                     {of, false},
		"":                         {nil, false},
		"engine:3000":              {[]string{"engine:3000"}, false},
		"engine:3000,8000:80":      {[]string{"engine:3000", "127.0.0.1:8000:80"}, false},
		"8000:80":                  {[]string{"127.0.0.1:8000:80"}, false},
		"engine":                   {of, true},
		"engine:3999-4000":         {of, true},
		"0.0.0.0:3000:3000":        {of, true},
		"engine:3000,engine:8000":  {of, true},
		"engine:3000,3000:80,9:10": {of, true},
	} {
		asked := map[string]string{AnnotationPrefix + "network.publish": ask}
		if ask == "none" {
			asked = nil
		}
		got, ignored := p.Tighten(asked)
		// As a jail's record keeps it.
		data, err := json.Marshal(got.Network)
		if err != nil {
			t.Fatal(err)
		}
		var kept Network
		if err := json.Unmarshal(data, &kept); err != nil {
			t.Fatal(err)
		}
		r, err := kept.Helped()
		if err != nil || !slices.Equal(r.Publish, c.want) || (len(ignored) != 0) != c.refused {
			t.Errorf("%q: %q, %+v, %v", ask, r.Publish, ignored, err)
		}
	}
}
