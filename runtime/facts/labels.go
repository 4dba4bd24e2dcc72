package facts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
)

// dockerNamespace is dockerd's namespace of containerd, unless configured (dockerd(8),
// --containerd-namespace).
const dockerNamespace = "moby"

// Annotations of containerd's CRI and of CRI-O: the pod's container, and all labels as JSON
// (pkg/annotations).
const (
	sandboxAnnotation = "io.kubernetes.cri.sandbox-id"
	crioSandbox       = "io.kubernetes.cri-o.SandboxID"
	crioLabels        = "io.kubernetes.cri-o.Labels"
)

// crioPodLabels returns the labels of a pod of CRI-O's from the bundle of the pod's own container,
// which lies beside those of the others, also where no process runs for it.
func crioPodLabels(dir, pod string) (labels map[string]string, err error) {
	if filepath.Base(pod) != pod {
		return nil, fmt.Errorf("%q is no container's id", pod)
	}
	var b struct{ Annotations map[string]string }
	of := filepath.Join(filepath.Dir(filepath.Dir(dir)), pod, filepath.Base(dir))
	text, err := trusted.Read(filepath.Join(of, bundle.ConfigName), bundle.MaxConfig)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err == nil {
		err = json.Unmarshal([]byte(b.Annotations[crioLabels]), &labels)
	}
	if err != nil {
		return nil, fmt.Errorf("the labels of pod %s: %w", pod, err)
	}
	return labels, nil
}

// withPods returns a container's labels over those of its pod.
func withPods(pods, own map[string]string) map[string]string {
	out := maps.Clone(pods)
	if out == nil {
		return own
	}
	maps.Copy(out, own)
	return out
}

// readLabels reads the container's labels from its engine's record. A label can request a tighter
// jail: without the record there is no start.
func (p *Gathered) readLabels(id string) (err error) {
	s, namespace := p.Bundle.Spec, enginerecord.Namespace(p.Bundle.Dir)
	var sources []string
	for _, m := range s.Mounts {
		sources = append(sources, m.Source)
	}
	root := ""
	if s.Root != nil {
		root = s.Root.Path
	}
	p.docker, err = enginerecord.FindDocker(id, root, sources)
	address := ""
	switch {
	case err != nil:
	case p.docker != nil:
		p.labels = p.docker.Config.Labels
		p.imageAsks = func() (map[string]string, error) { return p.docker.ImageLabels(p.Bundle.Dir) }
		return nil
	case namespace == dockerNamespace:
		err = fmt.Errorf("dockerd has none of container %s in a directory above its root file system, %s", id, root)
	case namespace != "":
		if address = enginerecord.Address(); address == "" {
			return nil // no containerd called: the bundle is run by hand, or explained
		}
		p.labels, err = ContainerdLabels(address, namespace, id)
		if pod := s.Annotations[sandboxAnnotation]; err == nil && pod != "" && pod != id {
			var ofPod map[string]string
			ofPod, err = ContainerdLabels(address, namespace, pod)
			p.labels = withPods(ofPod, p.labels)
		}
	case s.Annotations[crioLabels] != "":
		err = json.Unmarshal([]byte(s.Annotations[crioLabels]), &p.labels)
		if pod := s.Annotations[crioSandbox]; err == nil && pod != "" && pod != id {
			var ofPod map[string]string
			ofPod, err = crioPodLabels(p.Bundle.Dir, pod)
			p.labels = withPods(ofPod, p.labels)
		}
	default:
		p.labels, err = p.conmon.Labels(id)
	}
	if err != nil {
		return refusal.New(refusal.Annotation, "the engine's record of the container cannot be read, and a label in it may request a tighter jail: %v", err).
			WithRemedy("correct what is named, or start a new container")
	}
	return nil
}

// followLabels makes annotations of labels in agentjail's name: Docker before release 25 sets no
// annotations. Labels of the image are among them, and only tighten. The owner's label is read by
// namedOwner.
func (p *Gathered) followLabels(id string) error {
	own := map[string]string{}
	for name, value := range p.labels {
		if strings.HasPrefix(name, policy.AnnotationPrefix) && name != policy.AnnotationPrefix+policy.OwnerAnnotation {
			own[name] = value
		}
	}
	p.dropImages(own, p.imageAsks)
	if p.conmon.Name != "" { // Podman makes annotations of an image's its container's
		_, image := enginerecord.PodmanImage(p.Bundle.Dir, id)
		p.dropImages(p.Bundle.Spec.Annotations, image)
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if set, both := p.Bundle.Spec.Annotations[name]; both && set != own[name] {
			return refusal.New(refusal.Annotation, "%q, and the container's label of this name is %q", set, own[name]).
				About("annotations[%s]", name).WithRemedy("start it with the same value for both: a label of its own replaces the image's")
		}
	}
	if len(own) > 0 {
		maps.Copy(own, p.Bundle.Spec.Annotations)
		p.Bundle.Spec.Annotations = own
	}
	return nil
}

// dropImages removes from labels, or annotations, those by which an image would widen its own jail
// within policy's range, and reports them. One that the image has with the same value is the
// image's, and so is every one where the image's are not known.
func (p *Gathered) dropImages(labels map[string]string, images func() (map[string]string, error)) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !policy.Widens(name, labels[name]) {
			continue
		}
		why := "only the container's caller can request it, and the image has it"
		image, err := images()
		if err != nil {
			why = "only the container's caller can request it, and the image may have it: " + err.Error()
		} else if image[name] != labels[name] {
			continue
		}
		p.fromImage = append(p.fromImage, policy.Ignored{Name: name, Value: labels[name], Why: why + " (remedy: an annotation of the container, whose value the image's has not)"})
		delete(labels, name)
	}
}

// errMerged is the error for the labels of an image that its engine records among the container's.
var errMerged = errors.New("the engine does not record which are the image's")

// patience bounds the program that requests labels.
const patience = 20 * time.Second

// maxLabels bounds its answer, in bytes, as enginerecord/containerd does, but for JSON's escapes.
const maxLabels = 6 * 16 << 20

// ContainerdLabels returns the labels of a container of containerd's, with those of its image. Here
// another program requests them, since the command line does not link gRPC. The shim sets the
// function of enginerecord/containerd in its place.
var ContainerdLabels = func(address, namespace, id string) (labels map[string]string, err error) {
	program, err := programs.Path(programs.Ctl)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, errs := atomicfile.Head{Max: maxLabels}, atomicfile.Head{Max: 1 << 10}
	cmd := exec.CommandContext(ctx, program, enginerecord.LabelsVerb, address, namespace, id)
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = &answer, &errs, "/", []string{}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, enginerecord.LabelsVerb, err, strings.TrimSpace(string(errs.Text)))
	}
	return labels, json.Unmarshal(answer.Text, &labels)
}
