"""Why a derivative differs: kinks, ties, domains, custom gradients, the smallest witness."""
