"""The Pravega schema registry over REST."""
