// check_compatible: each setting that two processes must share is refused with an error that names it.
#include "fabric/transport.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TransportIdentity make_identity() {
  TransportIdentity identity;
  identity.library = "ucx 1.13.1";
  identity.transports = "posix,tcp,self";
  identity.mm_error_handling = true;
  identity.host = "boot-id";
  identity.pid_namespace = 4026531836;
  identity.pid = 321;
  identity.start_ticks = 12345;
  identity.instance = 77;
  return identity;
}

std::string refusal(const TransportIdentity& theirs) {
  const Status status = check_compatible(make_identity(), theirs);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), Error::kIncompatible);
  return status.message();
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CheckCompatible, DifferentProcessesOfOneHostFit) {
  TransportIdentity theirs = make_identity();
  theirs.pid = 322;
  theirs.start_ticks = 99;
  theirs.instance = 78;
  EXPECT_EQ(refusal(theirs), "");
}

TEST(CheckCompatible, DifferentHostsFit) {
  TransportIdentity theirs = make_identity();
  theirs.host = "another boot-id";
  theirs.pid_namespace = 1;
  EXPECT_EQ(refusal(theirs), "");
}

TEST(CheckCompatible, LibraryVersionIsNamedWithBothSides) {
  TransportIdentity theirs = make_identity();
  theirs.library = "ucx 1.22.0";
  const std::string text = refusal(theirs);
  EXPECT_TRUE(holds(text, "here \"ucx 1.13.1\", there \"ucx 1.22.0\"")) << text;
  EXPECT_TRUE(holds(text, "same UCX version")) << text;
}

TEST(CheckCompatible, TransportsAreNamedWithBothSides) {
  TransportIdentity theirs = make_identity();
  theirs.transports = "tcp,self";
  const std::string text = refusal(theirs);
  EXPECT_TRUE(holds(text, "UCX_TLS differs: here \"posix,tcp,self\", there \"tcp,self\"")) << text;
  EXPECT_TRUE(holds(text, "kv_transfer.transports")) << text;
}

TEST(CheckCompatible, MmErrorHandlingIsNamedWithBothSides) {
  TransportIdentity theirs = make_identity();
  theirs.mm_error_handling = false;
  const std::string text = refusal(theirs);
  EXPECT_TRUE(holds(text, "UCX_MM_ERROR_HANDLING differs: here \"y\", there \"n\"")) << text;
}

// Neither would see the other's exit: memory it may still write could never be used again.
TEST(CheckCompatible, PidNamespacesMustBeSharedWhereMemoryIs) {
  TransportIdentity theirs = make_identity();
  theirs.pid_namespace = 1;
  const std::string text = refusal(theirs);
  EXPECT_TRUE(holds(text, "different pid namespaces")) << text;
  EXPECT_TRUE(holds(text, "kv_transfer.transports = \"tcp,self\"")) << text;

  TransportIdentity ours = make_identity();
  ours.transports = theirs.transports = "tcp,self";
  EXPECT_TRUE(check_compatible(ours, theirs).ok());
}

}  // namespace
}  // namespace penstock
