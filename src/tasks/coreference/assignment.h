// The best one-to-one assignment (Kuhn 1955; shortest augmenting paths, Jonker and Volgenant 1987).
#pragma once

#include <span>
#include <vector>

#include "core/dtype.h"

namespace longformer::tasks {

/// For each of `rows` rows of gains [rows, columns] the column that it gets, −1 for none: the
/// assignment with the largest sum. O(rows²·columns) for rows ≤ columns.
std::vector<Index> best_assignment(std::span<const double> gains, Index rows, Index columns);

}  // namespace longformer::tasks
