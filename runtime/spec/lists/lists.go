// Package lists has what package slices lacks.
package lists

import "slices"

// Union appends to a list those of further elements that it does not have.
func Union[S ~[]E, E comparable](list S, more ...E) S {
	for _, e := range more {
		if !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}
