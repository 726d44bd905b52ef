// The report of the verb `attention` on documents, one after another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "attention/reports.h"
#include "document_stream.h"

namespace longformer::cli {

/// Gives the maps of a document to the report; returns its tokens. Throws Error for a document that
/// has none, before it begins the report.
using ShowAttention = std::function<std::int64_t(const Document&, AttentionReport&)>;

/// Writes the report into a file, or to stdout for an empty name. A page and arrays take one
/// document: a further one is an error of its own, and without one the file is left as it was.
/// Throws UsageError for such a form on a terminal.
void report_documents(DocumentStream& documents, const ReportOptions& options,
                      const std::string& file, const ShowAttention& show);

}  // namespace longformer::cli
