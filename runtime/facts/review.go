package facts

import (
	"maps"

	"agentjail.dev/runtime/spec/policy"
)

// addReviewLabel makes the label that requests views of mounted directories an annotation: Docker
// before version 24 has no option for annotations. An annotation counts before the label.
func (p *Gathered) addReviewLabel() {
	const name = policy.AnnotationPrefix + policy.WorkspaceAnnotation
	if p.docker == nil || p.docker.Config.Labels[name] == "" {
		return
	}
	s := p.Bundle.Spec
	if _, ok := s.Annotations[name]; ok {
		return
	}
	all := map[string]string{name: p.docker.Config.Labels[name]}
	maps.Copy(all, s.Annotations)
	s.Annotations = all
}
