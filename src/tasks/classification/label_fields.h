// Labels of a file before they are classes: which cells are no label, and which problem the labels
// make.
#pragma once

#include <string>

#include "tasks/classification/classification_data.h"

namespace longformer::tasks {

/// Throws Error for a field of a table that stands for no label, as pandas reads it: an empty one,
/// NaN, NA, None and so on.
void check_label_field(const std::string& field);
/// Throws Error for a value of JSON that stands for no label besides null: an empty text, nan and
/// <NA>.
void check_label_value(const std::string& value);

/// The problem that the labels of all documents make, by `options` and `target` first. Numbers as
/// 3.0 that are classes become 3, and decimal commas of a regression points. Notes what could be
/// understood otherwise. Throws Error for labels that can be understood in several ways.
ProblemType settle_problem(std::vector<UnresolvedDocument>& documents, const DataOptions& options,
                           const ClassificationTarget& target, DataReport& report);

}  // namespace longformer::tasks
