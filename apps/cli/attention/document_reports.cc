#include "attention/document_reports.h"

#include <memory>
#include <optional>

#include "longformer/error.h"
#include "usage.h"

namespace longformer::cli {
namespace {

/// A report that knows whether it has begun with a document.
class BegunReport final : public AttentionReport {
 public:
  explicit BegunReport(std::unique_ptr<AttentionReport> report) : report_(std::move(report)) {}

  void begin(const AttentionDocument& document) override {
    has_begun_ = true;
    report_->begin(document);
  }
  void add(const AttentionMap& map) override { report_->add(map); }
  void end() override { report_->end(); }
  bool has_begun() const { return has_begun_; }

 private:
  std::unique_ptr<AttentionReport> report_;
  bool has_begun_ = false;
};

}  // namespace

void report_documents(DocumentStream& documents, const ReportOptions& options,
                      const std::string& file, const ShowAttention& show) {
  const bool takes_many =
      options.format == AttentionFormat::text || options.format == AttentionFormat::json;
  std::optional<Output> opened;
  Output& output = file.empty() ? opened.emplace() : opened.emplace(file);
  if (file.empty() && !takes_many && output.is_terminal()) {
    throw UsageError("this form is not for a terminal: name a file with --output");
  }
  if (options.format == AttentionFormat::json) documents.write_failures(output);
  BegunReport report(attention_report(options, output));
  bool any = takes_many;
  documents.one_by_one([&](const Document& document) {
    return worked([&] {
      if (report.has_begun() && !takes_many) {
        throw Error("expected one document for a page or arrays, found another");
      }
      const std::int64_t tokens = show(document, report);
      any = true;
      if (takes_many) output.flush();
      return tokens;
    });
  });
  // Without its one document there is no result: the file is left as it was.
  if (any && !file.empty()) output.finish();
}

}  // namespace longformer::cli
