package main

import (
	"os"
	"strconv"
	"time"
)

// A budget is how long all tests may take: a run that is killed from outside reports nothing of
// what it has found.
type budget struct {
	minutes int // 0 for as long as they need
	began   time.Time
}

// budgetFromEnv reads BUDGET, in minutes, and BEGAN, in seconds since 1970. No budget is set where
// either is missing.
func budgetFromEnv() budget {
	minutes, err := strconv.Atoi(os.Getenv("BUDGET"))
	began, err2 := strconv.ParseInt(os.Getenv("BEGAN"), 10, 64)
	if err != nil || err2 != nil {
		return budget{}
	}
	return budget{minutes: minutes, began: time.Unix(began, 0)}
}

// over reports whether nothing may begin any more: nine tenths of the time are over.
func (b budget) over(now time.Time) bool {
	return b.minutes > 0 && now.Sub(b.began) > time.Duration(b.minutes)*time.Minute*9/10
}
